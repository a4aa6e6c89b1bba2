// The search of placements, over costs that one can add up by hand.
#include "experiments/planning/placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace longhaul::plan {
namespace {

// A chain: the sum of the links that neighbours have.
PlacementProblem Chain(int nodes, int (*cost)(int a, int b), int64_t* looked_at = nullptr) {
  PlacementProblem p{.nodes = nodes,
                     .ranks_of_group = nodes,
                     .groups_alike = false,
                     .link_kind = {},
                     .seconds = {},
                     .least_seconds = [](const std::vector<int>&) { return 0.0; }};
  for (int a = 0; a < nodes; ++a) {
    for (int b = 0; b < nodes; ++b) p.link_kind.push_back(a == b ? -1 : cost(a, b));
  }
  p.seconds = [cost, looked_at](const std::vector<int>& at) -> absl::StatusOr<double> {
    if (looked_at != nullptr) ++*looked_at;
    double sum = 0;
    for (size_t i = 0; i + 1 < at.size(); ++i) sum += cost(at[i], at[i + 1]);
    return sum;
  };
  return p;
}

// Near are nodes two apart, modulo five: 0-2-4-1-3 and back to 0.
int Ring(int a, int b) { return (b - a + 5) % 5 == 2 || (a - b + 5) % 5 == 2 ? 1 : 10; }

TEST(Placement, AChainFollowsTheRingAndTheFirstOfEqualOnesIsTaken) {
  const auto found = BestPlacement(Chain(5, Ring));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->nodes, (std::vector<int>{0, 2, 4, 1, 3}));
  EXPECT_EQ(found->seconds, 4);
  EXPECT_TRUE(found->exact);
}

int Alike(int, int) { return 3; }

TEST(Placement, EqualLinksAreTriedOnceAndWhatCannotWinIsNotTried) {
  int64_t looked_at = 0;
  ASSERT_TRUE(BestPlacement(Chain(8, Alike, &looked_at)).ok());
  EXPECT_EQ(looked_at, 1);
  looked_at = 0;
  PlacementProblem exact = Chain(5, Ring, &looked_at);
  // The true cost as a bound: only what is as good as the best is looked at: the chain may begin at
  // each of five nodes and go either way.
  PlacementProblem inner = Chain(5, Ring);
  exact.least_seconds = [inner](const std::vector<int>& at) { return *inner.seconds(at); };
  const auto found = BestPlacement(exact);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->seconds, 4);
  EXPECT_EQ(looked_at, 1) << "those chains have equal links, rank by rank";
}

// Of two groups whose numbers do not matter {0, 1} {2, 3} is one placement with {2, 3} {0, 1}.
TEST(Placement, GroupsThatAreAlikeAreNotExchanged) {
  int64_t looked_at = 0;
  PlacementProblem p{.nodes = 4,
                     .ranks_of_group = 2,
                     .groups_alike = true,
                     .link_kind = std::vector<int>(16),
                     .seconds = [&](const std::vector<int>& at) -> absl::StatusOr<double> {
                       ++looked_at;
                       EXPECT_LT(at[0], at[2]);
                       return 1.0 * at[0] + 10 * at[1];
                     },
                     .least_seconds = [](const std::vector<int>&) { return 0.0; }};
  std::iota(p.link_kind.begin(), p.link_kind.end(), 0);  // every link is another
  const auto found = BestPlacement(p);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(looked_at, 12) << "4! / 2!";
  EXPECT_EQ(found->nodes, (std::vector<int>{1, 0, 2, 3}));
}

int Line(int a, int b) { return std::abs(a * 7 % 12 - b * 7 % 12); }

TEST(Placement, BeyondEightNodesPairsAreExchangedAndNothingIsPromised) {
  const PlacementProblem p = Chain(12, Line);
  std::vector<int> start(12);
  std::iota(start.begin(), start.end(), 0);
  const auto found = BestPlacement(p);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->exact);
  EXPECT_LE(found->evaluated, kMostEvaluated);
  EXPECT_LT(found->seconds, *p.seconds(start));
  EXPECT_EQ(found->seconds, *p.seconds(found->nodes));
  std::vector<int> sorted = found->nodes;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, start);
}

TEST(Placement, AnErrorOfTheClockEndsTheSearch) {
  PlacementProblem p = Chain(3, Ring);
  p.seconds = [](const std::vector<int>&) -> absl::StatusOr<double> {
    return absl::InternalError("stuck");
  };
  EXPECT_EQ(BestPlacement(p).status().message(), "stuck");
}

}  // namespace
}  // namespace longhaul::plan
