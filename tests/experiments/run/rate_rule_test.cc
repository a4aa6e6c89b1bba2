// How many runs share a GPU by their rates: campaigns whose runs train at stated rates, by a clock of the test.
#include "experiments/run/rate_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace longhaul {
namespace {

// Runs that begin as soon as they may, of which `most` fit: each finishes a step in the same time, all of them
// train `rate(n)` tokens a second where n are at work.
int RunsAfter(RateRule& rule, const std::function<double(int)>& rate, absl::Duration long_enough,
              int most = 100) {
  absl::Duration now;
  double tokens = 0;
  int running = 0, training = 0;
  while (now < long_enough) {
    const int wanted = std::min(rule.allowed(), most);
    if (running != wanted) {
      rule.Changed(running = wanted);
      training = 0;  // the new ones start, and whatever they train meanwhile is no measure
      rule.Trained(now += absl::Seconds(20), static_cast<int64_t>(tokens += 1e9), training);
    }
    training = running;
    for (int run = 0; run < running; ++run) {
      tokens += rate(running) * 0.1 / running;
      rule.Trained(now += absl::Milliseconds(100.0 / running), static_cast<int64_t>(tokens),
                   training);
    }
  }
  return running;
}

TEST(RateRule, AddsRunsWhileAllTogetherTrainFaster) {
  RateRule rule(1);
  EXPECT_EQ(RunsAfter(
                rule, [](int n) { return 1000.0 * std::min(n, 6); }, absl::Minutes(10)),
            6);
  EXPECT_TRUE(rule.settled());
}

TEST(RateRule, StaysAtOneWhereOneFillsTheGpu) {
  RateRule rule(1);
  EXPECT_EQ(RunsAfter(
                rule, [](int n) { return 1000.0 + 20 * n; }, absl::Minutes(10)),
            1);
  EXPECT_TRUE(rule.settled());
}

TEST(RateRule, AGainBelowTheShareIsNotWorthARun) {
  const auto rises_by = [](double share) {
    return [share](int n) { return 1000.0 * std::pow(1 + share, std::min(n, 3)); };
  };
  RateRule little(1), enough(1);
  EXPECT_EQ(RunsAfter(little, rises_by(0.04), absl::Minutes(10)), 1);
  EXPECT_EQ(RunsAfter(enough, rises_by(0.06), absl::Minutes(10)), 3);
}

TEST(RateRule, AddsARunForEachGpu) {
  RateRule rule(4);
  EXPECT_EQ(rule.allowed(), 4);
  EXPECT_EQ(RunsAfter(
                rule, [](int n) { return 1000.0 * std::min(n, 12); }, absl::Minutes(10)),
            12);
}

TEST(RateRule, KeepsItsNumberWhereNoMoreFit) {
  RateRule rule(1);
  EXPECT_EQ(RunsAfter(
                rule, [](int n) { return 1000.0 * n; }, absl::Minutes(10), /*most=*/3),
            3);
  EXPECT_FALSE(rule.settled());
}

// A run that ends before its rate is known says nothing, nor do few steps, however long they take.
TEST(RateRule, MeasuresWholeWindowsAlone) {
  RateRule rule(1);
  rule.Changed(1);
  for (int step = 0; step <= RateRule::kEventsOfARun - 1; ++step) {
    rule.Trained(absl::Seconds(60 * step), 1000 * step, 1);
  }
  EXPECT_EQ(rule.allowed(), 1) << "seven steps behind the first";
  rule.Changed(1);
  rule.Trained(absl::Seconds(600), 9000, 1);
  EXPECT_EQ(rule.allowed(), 1) << "another run begins anew";
  for (int step = 1; step <= 20; ++step) {
    rule.Trained(absl::Seconds(600) + step * RateRule::kWindow / 21, 9000 + step, 1);
  }
  EXPECT_EQ(rule.allowed(), 1) << "a window is not over";
  rule.Trained(absl::Seconds(600) + RateRule::kWindow, 9021, 1);
  EXPECT_EQ(rule.allowed(), 2);
}

}  // namespace
}  // namespace longhaul
