#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"

namespace longhaul {

constexpr size_t kArmNameBytes = 64;

// A name that a user gives to an arm or a run stands in tables, pages, CSV files and shells'
// arguments: 1 to kArmNameBytes bytes, no control characters, no '@' (it comes before the budget in
// names that a campaign makes). InvalidArgument: says where it came from (`origin`) and what is
// wrong with it.
absl::Status CheckArmName(const std::string& origin, const std::string& name);

// The names that exist: the codecs of compressors/catalog.h, the profiles of
// netem/topology/topology.h, the schedules of pp_group/schedule/catalog.h.
SpecNames CatalogNames();

}  // namespace longhaul
