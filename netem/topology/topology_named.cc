#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/status_macros.h"
#include "netem/topology/region_tables.h"
#include "netem/topology/topology_file.h"

namespace longhaul {

absl::StatusOr<Topology> TopologyNamed(const std::string& profile_or_file) {
  if (RegionTableOf(profile_or_file) != nullptr) return RegionTopology(profile_or_file);
  auto uniform = UniformTopology(profile_or_file, 2);
  if (uniform.ok()) {
    uniform->nodes[0].name = "a";
    uniform->nodes[1].name = "b";
    return uniform;
  }
  std::error_code unknown;  // as a name that is too long for a file
  const bool is_table = profile_or_file.ends_with(".csv") || profile_or_file.ends_with(".json");
  if (!is_table && std::filesystem::exists(profile_or_file, unknown)) {
    return ReadTopology(profile_or_file);
  }
  if (!WhyNoLinks(profile_or_file).empty()) return uniform.status();
  return absl::NotFoundError(
      fmt::format("{}; tables of regions: aws, ibm; nor is there a file of that name",
                  std::string(uniform.status().message())));
}

absl::StatusOr<Topology> MeshNamed(const std::string& profile_or_file, int nodes) {
  const bool regions = RegionTableOf(profile_or_file) != nullptr;
  if (!regions && !IsTopologyFile(profile_or_file)) return UniformTopology(profile_or_file, nodes);
  ASSIGN_OR_RETURN(Topology read,
                   regions ? RegionTopology(profile_or_file) : ReadTopology(profile_or_file));
  if (!read.changes.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}: [[change]] is for labs of `longhaul net`; the links of a run stay as "
                    "they are",
                    profile_or_file, read.changes.front().line));
  }
  if (static_cast<int>(read.nodes.size()) != nodes) {
    return absl::InvalidArgumentError(fmt::format("{}: has {} nodes; want {}, one for each rank",
                                                  profile_or_file, read.nodes.size(), nodes));
  }
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (from == to || FindPath(read, from, to) != nullptr) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: no path from '{}' to '{}'; every pair of ranks needs one: all meet at "
                      "rank 0 before they train (give [between] a profile)",
                      profile_or_file, read.nodes[static_cast<size_t>(from)].name,
                      read.nodes[static_cast<size_t>(to)].name));
    }
  }
  return read;
}

}  // namespace longhaul
