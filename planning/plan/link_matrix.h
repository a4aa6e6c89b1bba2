#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology/topology.h"

namespace longhaul::plan {

// Links between `nodes` nodes, each pair of which has a path: a profile, a topology file (.toml), a
// table of regions; or a matrix (.json) that `longhaul net probe LAB --json` wrote, whose nodes count
// in the order in which its paths name them. Of a probe a path's rate is the goodput that was measured
// with TCP's headers on top, or rate_mbit, the lab's own, where goodput is left out; its delay half the
// median round trip. `notes` gets a line for what the figures are not: measured in bounds, or measured
// at all. NotFound: no file. InvalidArgument: not what a probe writes, a path that was down or has no
// figure, a pair without a path, another number of nodes.
absl::StatusOr<Topology> ReadLinkMatrix(const std::string& links, int nodes,
                                        std::vector<std::string>* notes);
absl::StatusOr<Topology> ParseProbe(std::string_view json, const std::string& where, int nodes,
                                    std::vector<std::string>* notes);

// The same nodes and paths as a topology file, but for what a clock has no model of.
std::string TopologyToml(const Topology& links);

}  // namespace longhaul::plan
