#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/statusor.h"

namespace longhaul {

// Parts of `longhaul schedule`, one file each.
void AddScheduleBest(CLI::App& schedule, int* exit_status);
void AddScheduleCuts(CLI::App& schedule, int* exit_status);

// One direction of every link of a pipeline.
struct OneLink {
  double rate_bit_per_s, one_way_delay_s;
};
// Of a profile's name. InvalidArgument: a topology file, or no profile of that name.
absl::StatusOr<OneLink> LinkOfProfile(const std::string& profile);

}  // namespace longhaul
