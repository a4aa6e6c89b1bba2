#include "experiments/estimates/interval.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

std::vector<double> OneTo(int n) {
  std::vector<double> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 1.0);
  return x;
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({7}), 7);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Median({9, 1, 5, 6}), 5.5);
}

// Tables of the sign test: the interval runs from the k-th value to the k-th from the end.
TEST(MedianOfSteps, OrderStatisticsAreThoseOfTheSignTestsTable) {
  EXPECT_FALSE(MedianOfSteps(OneTo(1)).interval);
  EXPECT_FALSE(MedianOfSteps(OneTo(5)).interval);
  const std::vector<std::pair<int, int>> k_of_n = {{6, 1},  {8, 1},  {9, 2},  {11, 2}, {12, 3},
                                                   {15, 4}, {17, 5}, {20, 6}, {25, 8}, {29, 9}};
  for (const auto& [n, k] : k_of_n) {
    const Measured m = MedianOfSteps(OneTo(n));
    EXPECT_EQ(m.value, (n + 1) / 2.0);
    ASSERT_TRUE(m.interval) << n;
    EXPECT_EQ(m.interval->low, k) << n;
    EXPECT_EQ(m.interval->high, n + 1 - k) << n;
    EXPECT_EQ(m.interval->method, "order statistics");
  }
}

TEST(MedianOfSteps, FromThirtyStepsOnBlocksOfTenAreDrawn) {
  const Measured m = MedianOfSteps(OneTo(30));
  ASSERT_TRUE(m.interval);
  EXPECT_EQ(m.interval->method, "block bootstrap");
}

// Steps of ten that are slow or fast together: an interval that took them for independent would be
// three times too narrow.
TEST(MedianOfSteps, HoldsTheTruthWhereNeighboursAreAlike) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int held = 0;
  constexpr int kWorlds = 200;
  for (int world = 0; world < kWorlds; ++world) {
    std::vector<double> x;
    for (int block = 0; block < 20; ++block) {
      const double shared = normal(random);
      for (int i = 0; i < 10; ++i) x.push_back(1 + shared + 0.1 * normal(random));
    }
    const Measured m = MedianOfSteps(x);
    held += m.interval->low <= 1 && 1 <= m.interval->high;
  }
  EXPECT_GE(held, kWorlds * 85 / 100);
  EXPECT_LE(held, kWorlds * 99 / 100);
}

}  // namespace
}  // namespace longhaul
