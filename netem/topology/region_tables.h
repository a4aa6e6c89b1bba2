#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology/pair_matrix.h"
#include "netem/topology/topology.h"

namespace longhaul {

// Round-trip times between the regions of a cloud, as published. No rates: what a tenant gets
// between regions depends on his machines.
struct RegionRtts {
  std::string_view name;    // "aws"
  std::string_view source;  // who measured, and when
  std::string_view rtt_ms;  // as PairMatrix reads it
};
const std::vector<RegionRtts>& RegionTables();

// The table of that name, or of it only these regions, in this order; none: all.
// NotFound: no such table or region; the message lists the known ones.
absl::StatusOr<PairMatrix> RegionMatrix(std::string_view table,
                                        const std::vector<std::string>& regions);

// "aws" or "aws:us-east-1,eu-west-1": a node for each region, the table's round-trip times between
// them and no rates. NotFound, as RegionMatrix; InvalidArgument: a region given twice.
absl::StatusOr<Topology> RegionTopology(std::string_view name);

// The table that such a name is of; null: none.
const RegionRtts* RegionTableOf(std::string_view name);

}  // namespace longhaul
