#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul::plan {

// Which node of a link matrix each rank of a run gets. Pure search: what a placement takes is the
// caller's to say.
struct PlacementProblem {
  int nodes;                  // n = G P; rank g P + r is rank r of group g
  int ranks_of_group;         // P
  bool groups_alike = false;  // placements that differ in the groups' numbers alone take the same
  // [n n], from * n + to: links with equal numbers are alike, in both figures.
  std::vector<int> link_kind;
  // Seconds of a placement (node of each rank), and what they do not fall short of.
  std::function<absl::StatusOr<double>(const std::vector<int>&)> seconds;
  std::function<double(const std::vector<int>&)> least_seconds;
};

struct Placement {
  std::vector<int> nodes = {};  // by rank
  double seconds = 0;
  bool exact = false;     // no placement takes less
  int64_t evaluated = 0;  // by `seconds`
};

inline constexpr int kExactNodes = 8;
inline constexpr int64_t kMostEvaluated = 400;  // beyond that many nodes

// Up to kExactNodes nodes: the best of all n!, of equal ones (to the microsecond) the first in the
// order of their lists. Placements that give every pair of ranks an equal link are tried once, and
// those whose least exceeds the best not at all. Beyond: from rank r on node r on, pairs of nodes are
// exchanged while that helps, until no pair does or kMostEvaluated were tried. Errors: `seconds`'.
absl::StatusOr<Placement> BestPlacement(const PlacementProblem& problem);

}  // namespace longhaul::plan
