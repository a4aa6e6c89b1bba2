#include "experiments/estimates/efficiency.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

// Losses drawn from a known truth, a line on ln D, seed effects, noise of each run.
struct World {
  double floor = 2.0, slope = 0.37;
  double seed_effect = 0, noise = 0;
  std::vector<double> budgets = {0.5, 0.65, 0.8, 1.0, 1.1};
  double Loss(double budget) const { return floor - slope * std::log(budget); }
};

struct Sample {
  std::vector<ReferenceRun> reference;
  std::vector<LossBySeed> arms;  // one per eta asked for
};

// Against the curve's own D0 runs.
absl::StatusOr<Efficiency> Estimate(const ReferenceCurve& curve, const LossBySeed& arm,
                                    int64_t crossings) {
  return EstimateArm(curve, curve.d0_loss_by_seed, arm, crossings);
}
absl::StatusOr<JointEstimate> Joint(const ReferenceCurve& curve, std::vector<DepthPoint> arms) {
  return EstimateJoint(curve, curve.d0_loss_by_seed, arms);
}

Sample Draw(const World& w, int seeds, const std::vector<double>& etas, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Sample out;
  out.arms.resize(etas.size());
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const double common = w.seed_effect * normal(random);
    for (const double budget : w.budgets) {
      out.reference.push_back({seed, budget, w.Loss(budget) + common + w.noise * normal(random)});
    }
    for (size_t i = 0; i < etas.size(); ++i) {
      out.arms[i][seed] = w.Loss(etas[i]) + common + w.noise * normal(random);
    }
  }
  return out;
}

Sample Exact(const std::vector<double>& etas, int seeds = 3) {
  std::mt19937_64 random(1);
  return Draw(World{}, seeds, etas, random);
}

TEST(EstimateArm, ExactLossesGiveBackTheirEta) {
  for (const double truth : {0.6, 0.8, 0.9, 0.97, 1.0}) {
    const Sample s = Exact({truth});
    const Efficiency e = *Estimate(*FitReference(s.reference), s.arms[0], 6);
    EXPECT_NEAR(e.ln_eta.value, std::log(truth), 1e-9) << truth;
    EXPECT_NEAR(e.q->value, std::pow(e.eta.value, 1.0 / 6), 1e-12);
  }
}

TEST(EstimateArm, NothingIsSaidBelowTheSmallestBudget) {
  const Sample s = Exact({0.3});
  const Efficiency e = *Estimate(*FitReference(s.reference), s.arms[0], 2);
  EXPECT_TRUE(e.IsBound());
  EXPECT_NEAR(e.eta.value, 0.5, 1e-12);
  EXPECT_NEAR(e.q->value, std::sqrt(0.5), 1e-12);
}

TEST(EstimateArm, OneSeedHasNoInterval) {
  const Sample s = Exact({0.9}, 1);
  const Efficiency e = *Estimate(*FitReference(s.reference), s.arms[0], 2);
  EXPECT_EQ(e.seeds, 1);
  EXPECT_FALSE(e.eta.interval.has_value());
  EXPECT_FALSE(e.q->interval.has_value());
  EXPECT_FALSE(e.equivalent.has_value());
  EXPECT_EQ(AgainstAssumed(*e.q, 2), Verdict::kNoInterval);
}

TEST(EstimateArm, PairsBySeedOnly) {
  Sample s = Exact({0.9});
  s.arms[0][17] = 99;  // no reference of that seed
  EXPECT_EQ(Estimate(*FitReference(s.reference), s.arms[0], 2)->seeds, 3);
  EXPECT_FALSE(Estimate(*FitReference(s.reference), {{17, 2.0}}, 2).ok());
}

// Two runs a seed at 0.5 D0 and D0, 0.4 ln 2 apart: the curve is the line of slope 0.4.
ReferenceCurve LineOfSlope(double slope, std::initializer_list<int64_t> seeds) {
  std::vector<ReferenceRun> runs;
  for (const int64_t seed : seeds) {
    runs.push_back({seed, 0.5, 3 + slope * std::log(2.0)});
    runs.push_back({seed, 1.0, 3});
  }
  return *FitReference(runs);
}

// The interval written out by hand: d = {0.01, 0.02, 0.03}.
TEST(EstimateArm, TIntervalOfTheClosedForm) {
  const ReferenceCurve curve = LineOfSlope(0.4, {1, 2, 3});
  const Efficiency e = *Estimate(curve, {{1, 3.01}, {2, 3.02}, {3, 3.03}}, 2);
  const double half = 4.302653 * 0.01 / std::sqrt(3.0) / 0.4;
  ASSERT_TRUE(e.ln_eta.interval);
  EXPECT_EQ(e.ln_eta.interval->method, "t");
  EXPECT_NEAR(e.ln_eta.value, -0.05, 1e-12);
  EXPECT_NEAR(e.ln_eta.interval->low, -0.05 - half, 1e-7);
  EXPECT_NEAR(e.ln_eta.interval->high, -0.05 + half, 1e-7);
  EXPECT_NEAR(e.q->interval->low, std::exp((-0.05 - half) / 2), 1e-7);
  EXPECT_FALSE(*e.equivalent);
}

TEST(EstimateJoint, ExactLossesGiveBackQAtEveryDepth) {
  const double a = 0.012;
  const std::vector<int64_t> crossings = {2, 6, 14};
  const Sample s = Exact({std::exp(-2 * a), std::exp(-6 * a), std::exp(-14 * a)});
  std::vector<DepthPoint> arms;
  for (size_t i = 0; i < 3; ++i) arms.push_back({crossings[i], s.arms[i]});
  const absl::StatusOr<JointEstimate> joint = Joint(*FitReference(s.reference), arms);
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_NEAR(joint->a.value, a, 1e-9);
  EXPECT_NEAR(joint->q.value, std::exp(-a), 1e-9);
  EXPECT_NEAR(joint->q.interval->high - joint->q.interval->low, 0, 1e-9);
}

TEST(EstimateJoint, StandardErrorOfTheClosedFormAndItsCoverage) {
  const World w{.seed_effect = 0.01, .noise = 0.004};
  const double a = -std::log(kAssumedQ);
  std::mt19937_64 random(11);
  constexpr int kSeeds = 5, kWorlds = 3000;
  double squares = 0;
  int hits = 0;
  for (int i = 0; i < kWorlds; ++i) {
    const Sample s =
        Draw(w, kSeeds, {std::exp(-2 * a), std::exp(-6 * a), std::exp(-14 * a)}, random);
    const JointEstimate joint =
        *Joint(*FitReference(s.reference), {{2, s.arms[0]}, {6, s.arms[1]}, {14, s.arms[2]}});
    squares += (joint.a.value - a) * (joint.a.value - a);
    hits += joint.a.interval->low <= a && a <= joint.a.interval->high;
  }
  // sigma^2 (1 - rho) = noise^2; the sum of squares of K = {0, 2, 6, 14} is 115.
  const double closed = w.noise / (w.slope * std::sqrt(kSeeds * 115.0));
  EXPECT_NEAR(std::sqrt(squares / kWorlds) / closed, 1.0, 0.12);
  EXPECT_NEAR(static_cast<double>(hits) / kWorlds, 0.95, 0.02);
}

TEST(AgainstAssumed, ReadsTheIntervalAndNotTheValue) {
  const auto verdict = [](double low, double high) {
    return AgainstAssumed({0.99, Interval{low, high, 0.95, "t"}}, /*directions=*/2);
  };
  EXPECT_EQ(verdict(0.98, 0.994), Verdict::kBelow);
  EXPECT_EQ(verdict(0.996, 0.999), Verdict::kAbove);
  EXPECT_EQ(verdict(0.98, 0.999), Verdict::kNotResolved);
}

// Two crossings of 0.995 are a boundary of 0.990, which a codec in one direction has all to itself.
TEST(AgainstAssumed, OneDirectionComparesWithABoundary) {
  const auto verdict = [](double low, double high) {
    return AgainstAssumed({0.99, Interval{low, high, 0.95, "t"}}, /*directions=*/1);
  };
  EXPECT_EQ(verdict(0.98, 0.994), Verdict::kNotResolved);
  EXPECT_EQ(verdict(0.98, 0.9899), Verdict::kBelowOneWay);
  EXPECT_EQ(verdict(0.9901, 0.994), Verdict::kAboveOneWay);
  EXPECT_EQ(ToString(verdict(0.98, 0.9899)), "below 0.990 per boundary");
}

TEST(RatioOfMeans, UnboundedFiellerGivesNoInterval) {
  const std::vector<double> y = {1, 1.1, 0.9}, x = {1, -1, 0.2};
  EXPECT_FALSE(RatioOfMeans(y, x, 0.95).interval.has_value());
}

}  // namespace
}  // namespace longhaul
