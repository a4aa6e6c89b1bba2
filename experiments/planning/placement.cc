#include "experiments/planning/placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/status_macros.h"

namespace longhaul::plan {
namespace {

using Nodes = std::vector<int>;

// The clock has whole microseconds.
int64_t Microseconds(double seconds) { return std::llround(seconds * 1e6); }

bool IsFirstOfItsKind(const PlacementProblem& p, const Nodes& nodes) {
  if (!p.groups_alike) return true;
  for (size_t r = static_cast<size_t>(p.ranks_of_group); r < nodes.size();
       r += static_cast<size_t>(p.ranks_of_group)) {
    if (nodes[r] < nodes[r - static_cast<size_t>(p.ranks_of_group)]) return false;
  }
  return true;
}

// The links that matter: inside of groups, and between peers.
std::vector<int> KindsOf(const PlacementProblem& p, const Nodes& nodes) {
  std::vector<int> kinds;
  for (int a = 0; a < p.nodes; ++a) {
    for (int b = 0; b < p.nodes; ++b) {
      const bool inside = a / p.ranks_of_group == b / p.ranks_of_group;
      const bool peers = a % p.ranks_of_group == b % p.ranks_of_group;
      if (a == b || (!inside && !peers)) continue;
      kinds.push_back(p.link_kind[static_cast<size_t>(nodes[static_cast<size_t>(a)] * p.nodes +
                                                      nodes[static_cast<size_t>(b)])]);
    }
  }
  return kinds;
}

absl::StatusOr<Placement> Exact(const PlacementProblem& p) {
  Nodes nodes(static_cast<size_t>(p.nodes));
  std::iota(nodes.begin(), nodes.end(), 0);
  std::map<std::vector<int>, Nodes> distinct;
  do {
    if (IsFirstOfItsKind(p, nodes)) distinct.try_emplace(KindsOf(p, nodes), nodes);
  } while (std::next_permutation(nodes.begin(), nodes.end()));
  std::vector<std::pair<double, Nodes>> tried;
  for (auto& [kinds, first] : distinct) tried.emplace_back(p.least_seconds(first), first);
  std::sort(tried.begin(), tried.end());
  Placement best{.exact = true};
  for (const auto& [least, candidate] : tried) {
    if (!best.nodes.empty() && Microseconds(least) > Microseconds(best.seconds)) break;
    const absl::StatusOr<double> seconds = p.seconds(candidate);
    if (!seconds.ok()) return seconds.status();
    ++best.evaluated;
    const auto key = std::pair(Microseconds(*seconds), candidate);
    if (!best.nodes.empty() && std::pair(Microseconds(best.seconds), best.nodes) < key) continue;
    best.nodes = candidate;
    best.seconds = *seconds;
  }
  return best;
}

absl::StatusOr<Placement> ByExchanges(const PlacementProblem& p) {
  Placement best{.nodes = Nodes(static_cast<size_t>(p.nodes)), .evaluated = 1};
  std::iota(best.nodes.begin(), best.nodes.end(), 0);
  ASSIGN_OR_RETURN(const double start, p.seconds(best.nodes));
  best.seconds = start;
  for (bool better = true; better;) {
    better = false;
    for (size_t a = 0; a < best.nodes.size(); ++a) {
      for (size_t b = a + 1; b < best.nodes.size(); ++b) {
        Nodes other = best.nodes;
        std::swap(other[a], other[b]);
        if (KindsOf(p, other) == KindsOf(p, best.nodes) ||
            Microseconds(p.least_seconds(other)) >= Microseconds(best.seconds)) {
          continue;
        }
        if (best.evaluated == kMostEvaluated) return best;
        const absl::StatusOr<double> seconds = p.seconds(other);
        if (!seconds.ok()) return seconds.status();
        ++best.evaluated;
        if (Microseconds(*seconds) >= Microseconds(best.seconds)) continue;
        best.nodes = std::move(other);
        best.seconds = *seconds;
        better = true;
      }
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<Placement> BestPlacement(const PlacementProblem& problem) {
  return problem.nodes <= kExactNodes ? Exact(problem) : ByExchanges(problem);
}

}  // namespace longhaul::plan
