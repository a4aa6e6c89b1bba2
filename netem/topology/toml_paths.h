#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/topology.h"

namespace longhaul {

// What the tables of a topology file say of access lines and paths. What is wrong in one stays with
// its reader.

// up_mbit and down_mbit, and how deep their queues are.
std::optional<AccessSpec> ReadAccess(TableReader& t);

// A path with the figures of the profile that `key` names; nullopt: none that is known.
std::optional<PathSpec> ReadProfile(TableReader& t, const std::string& key);

// A path with its profile's figures and what the table says instead.
PathSpec ReadFigures(TableReader& t);

// [matrix]: a round-trip time for every ordered pair of nodes, and figures that all pairs share or
// that other matrices give each.
struct PathsOfPairs {
  std::vector<std::string> names;
  std::vector<std::vector<PathSpec>> paths;  // [from][to], as `names`; their ends are not set
  std::string where;                         // the file or table that names the nodes
};
// Files lie in `folder`. InvalidArgument with file and line: of the table, or of a matrix's file.
absl::StatusOr<PathsOfPairs> ReadPairs(const TomlValue& matrix, const std::string& folder);

}  // namespace longhaul
