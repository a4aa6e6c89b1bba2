// Every estimator and interval against numbers worked out apart from the program, from tables small
// enough to check with a calculator. estimators_scipy_test.cc has the same by SciPy, on other
// tables.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/efficiency.h"

namespace longhaul {
namespace {

// Four seeds at D0/2, D0 and 2 D0, whose mean losses are 3.31, 3.0075 and 2.805. Secants 0.3025 and
// 0.2025 over ln 2: the tangent at D0 is their harmonic mean over ln 2.
ReferenceCurve Curve() {
  const double losses[4][3] = {
      {3.30, 3.00, 2.80}, {3.36, 3.02, 2.81}, {3.25, 2.97, 2.79}, {3.33, 3.04, 2.82}};
  const double budgets[] = {0.5, 1.0, 2.0};
  std::vector<ReferenceRun> runs;
  for (int64_t seed = 1; seed <= 4; ++seed) {
    for (int i = 0; i < 3; ++i) runs.push_back({seed, budgets[i], losses[seed - 1][i]});
  }
  return *FitReference(runs);
}

Efficiency Arm(const LossBySeed& losses, int64_t crossings) {
  const ReferenceCurve curve = Curve();
  return *EstimateArm(curve, curve.d0_loss_by_seed, losses, crossings);
}

const LossBySeed kThreeSeeds = {{1, 3.02}, {2, 3.06}, {3, 2.98}};
const LossBySeed kFourSeeds = {{1, 3.08}, {2, 3.13}, {3, 3.07}, {4, 3.11}};

void ExpectInterval(const Measured& x, double value, double low, double high, double within) {
  EXPECT_NEAR(x.value, value, within);
  ASSERT_TRUE(x.interval);
  EXPECT_NEAR(x.interval->low, low, within);
  EXPECT_NEAR(x.interval->high, high, within);
}

TEST(Tables, SlopeOfTheReferenceCurveAndItsError) {
  const ReferenceCurve curve = Curve();
  EXPECT_NEAR(curve.slope_nat, 2 * 0.3025 * 0.2025 / (0.3025 + 0.2025) / std::log(2.0), 1e-12);
  EXPECT_NEAR(curve.slope_se_nat, 0.012769952798895824, 1e-12);
  // D0 found again on the line from D0/2 to 2 D0: (3.31 - 3.0075) / (3.31 - 2.805) of the way.
  ASSERT_EQ(curve.pseudo_controls.size(), 1u);
  const double error = (0.3025 / 0.505 * 2 - 1) * std::log(2.0);
  EXPECT_NEAR(curve.pseudo_controls[0].error.value, error, 1e-12);
  EXPECT_NEAR(curve.own_error, 0.06819384161241952, 1e-12) << "its noise taken off";
}

// Variances at the three budgets: 22 e-4, 8.9167 e-4, 1.6667 e-4; three degrees of freedom each.
TEST(Tables, SigmaIsPooledOverBudgets) {
  EXPECT_NEAR(Curve().sigma_nat, std::sqrt((22 + 8.916667 + 1.666667) * 1e-4 / 3), 1e-8);
}

// Delta = {0.02, 0.04, 0.01}: mean 0.023333, sd 0.0152753, t(2) = 4.302653.
TEST(Tables, MeanDifferenceHasTheTIntervalOfNMinusOne) {
  const Efficiency e = Arm(kThreeSeeds, 6);
  ExpectInterval(e.delta_nat, 0.023333333, -0.014612497, 0.061279164, 1e-8);
  EXPECT_NEAR(e.sd_delta_nat, 0.015275252, 1e-9);
}

// Read off the curve at 3.0075 + 0.023333; each jackknife replicate off the curve without the seed,
// and the curve's own error at that place. By estimators_scipy.py.
TEST(Tables, LossIsReadOffTheCurve) {
  const Efficiency e = Arm(kThreeSeeds, 6);
  const double value = -0.06494005202424245, low = -0.17021763306480206, high = 0.04033752901631715;
  ExpectInterval(e.ln_eta, value, low, high, 1e-9);
  ExpectInterval(e.eta, std::exp(value), std::exp(low), std::exp(high), 1e-9);
  ExpectInterval(*e.q, std::exp(value / 6), std::exp(low / 6), std::exp(high / 6), 1e-9);
  ExpectInterval(Arm(kFourSeeds, 14).ln_eta, -0.23527430973168265, -0.3727283567851002,
                 -0.09782026267826507, 1e-9);
}

// Both depths together, over seeds 1 to 3, which have both.
TEST(Tables, JointFitOverTwoDepths) {
  const ReferenceCurve curve = Curve();
  const std::vector<DepthPoint> depths = {{6, kThreeSeeds}, {14, kFourSeeds}};
  const JointEstimate joint = *EstimateJoint(curve, curve.d0_loss_by_seed, depths);
  EXPECT_EQ(joint.seeds, 3);
  const double a = 0.018240608138472374, low = 0.007504782595370654, high = 0.028976433681574095;
  ExpectInterval(joint.a, a, low, high, 1e-9);
  ExpectInterval(joint.q, std::exp(-a), std::exp(-high), std::exp(-low), 1e-9);
}

// y = {.03 .05 .04 .08}, x = {.30 .42 .35 .45}: the variances of the means are 1.16667 e-4 and
// 1.15 e-3, their covariance 3.33333 e-4, t(3) = 3.182446. Without the covariance the half-width
// were 0.0979.
TEST(Tables, DeltaMethodHasItsCovariance) {
  const std::vector<double> y = {.03, .05, .04, .08}, x = {.30, .42, .35, .45};
  const Measured r = RatioOfMeans(y, x, 0.95);
  EXPECT_EQ(r.interval->method, "t");
  ExpectInterval(r, 0.131578947, 0.073040338, 0.190117557, 1e-9);
}

// mean(x) is 4.03 standard errors from 0: the roots of (y - r x)^2 = t^2 var(y - r x), found by
// bracketing.
TEST(Tables, FiellerWhereTheSlopeIsNotWellTold) {
  const std::vector<double> y = {.03, .09, -.02, .11, .06}, x = {.15, .55, .35, .62, .20};
  const Measured r = RatioOfMeans(y, x, 0.95);
  EXPECT_EQ(r.interval->method, "fieller");
  ExpectInterval(r, 0.144385027, -0.048038262, 0.323039549, 1e-8);
}

// Slopes all 0.4; Delta = {-0.0004, 0, 0.0004}: the 90 % interval of ln eta is +-2.919986 * 0.0004
// / sqrt(3) / 0.4 = +-0.0016859, and the margin 0.002 K.
TEST(Tables, EquivalenceIsTheNinetyPercentIntervalInsideTheMargin) {
  std::vector<ReferenceRun> runs;
  for (const int64_t seed : {1, 2, 3}) {
    runs.push_back({seed, 0.5, 3 + 0.4 * std::log(2.0)});
    runs.push_back({seed, 1.0, 3});
    runs.push_back({seed, 2.0, 3 - 0.4 * std::log(2.0)});
  }
  const ReferenceCurve curve = *FitReference(runs);
  const LossBySeed& reference = curve.d0_loss_by_seed;
  const auto equivalent = [&](double mean, double spread, int64_t crossings) {
    const LossBySeed arm = {{1, 3 + mean - spread}, {2, 3 + mean}, {3, 3 + mean + spread}};
    return *EstimateArm(curve, reference, arm, crossings)->equivalent;
  };
  EXPECT_TRUE(equivalent(0, 0.0004, 1));
  EXPECT_FALSE(equivalent(0, 0.0005, 1));       // +-0.0021
  EXPECT_TRUE(equivalent(0, 0.0009, 2));        // +-0.0038 inside +-0.004
  EXPECT_FALSE(equivalent(0.0002, 0.0004, 1));  // one end outside: -0.0022
  EXPECT_FALSE(equivalent(-0.0002, 0.0004, 1));
}

// The reference of an arm is a map of its own: Delta = {0.03, 0.05} against an arm with the same
// change, though against the curve's D0 runs it were {0.13, 0.15}. Where the changed arms lie the
// curve falls by 0.5 nat per e-fold, at D0 by 0.3: the slope there counts.
TEST(Tables, NamedReferenceIsSubtractedAtItsOwnPlaceOnTheCurve) {
  std::vector<ReferenceRun> runs;
  for (const int64_t seed : {1, 2}) {
    const double far = 3 + 0.3 * 0.1;
    runs.push_back({seed, std::exp(-0.1), far});
    runs.push_back({seed, std::exp(-0.2), far + 0.5 * 0.1});
    runs.push_back({seed, std::exp(-0.3), far + 0.5 * 0.2});
    runs.push_back({seed, std::exp(-0.4), far + 0.5 * 0.3});
    runs.push_back({seed, std::exp(-0.5), far + 0.5 * 0.4});
    runs.push_back({seed, 1.0, 3});
  }
  const ReferenceCurve curve = *FitReference(runs);
  const LossBySeed changed = {{1, 3.10}, {2, 3.10}};
  const Efficiency e = *EstimateArm(curve, changed, {{1, 3.13}, {2, 3.15}}, 2);
  EXPECT_NEAR(e.delta_nat.value, 0.04, 1e-12);
  EXPECT_NEAR(e.ln_eta.value, -0.08, 1e-9);
  EXPECT_NEAR(e.q->value, std::exp(-0.04), 1e-9);
  // A reference below the smallest budget has no place, and its arm no eta.
  EXPECT_EQ(EstimateArm(curve, {{1, 3.3}, {2, 3.3}}, {{1, 3.31}, {2, 3.31}}, 2).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // What is left is the difference, of the seeds that have both: t(1) = 12.706.
  const Measured delta = *DeltaWithoutEta({{1, 3.3}, {2, 3.3}, {3, 9.0}}, {{1, 3.31}, {2, 3.35}});
  EXPECT_NEAR(delta.value, 0.03, 1e-12);
  EXPECT_NEAR(delta.interval->high, 0.03 + 12.706204736 * 0.02, 1e-8);
  EXPECT_FALSE(DeltaWithoutEta({{1, 3.3}}, {{2, 3.3}}).has_value());
}

TEST(Bounds, BelowTheSmallestBudgetIsABoundAndNoValue) {
  const double floor = 0.5;
  const Measured below = CutBelow(floor, {0.4, Interval{0.3, 0.45, 0.95, "t"}});
  EXPECT_EQ(below.bound, Bound::kUpper);
  EXPECT_EQ(below.value, 0.5);
  EXPECT_EQ(below.interval->high, 0.5);
  EXPECT_EQ(below.interval->low, -std::numeric_limits<double>::infinity());
  // The interval reaches above the smallest budget: no less than its end may be said.
  const Measured reaching = CutBelow(floor, {0.4, Interval{0.3, 0.6, 0.95, "t"}});
  EXPECT_EQ(reaching.bound, Bound::kUpper);
  EXPECT_EQ(reaching.value, 0.6);
  const Measured low = CutBelow(floor, {0.7, Interval{0.3, 1.1, 0.95, "t"}});
  EXPECT_EQ(low.bound, Bound::kLowEnd);
  EXPECT_EQ(low.value, 0.7);
  EXPECT_EQ(low.interval->low, 0.5);
  const Measured inside = CutBelow(floor, {0.7, Interval{0.6, 1.1, 0.95, "t"}});
  EXPECT_EQ(inside.bound, Bound::kNone);
  const Measured one_seed = CutBelow(floor, {0.4, std::nullopt});
  EXPECT_EQ(one_seed.bound, Bound::kUpper);
  EXPECT_EQ(one_seed.value, 0.5);
  EXPECT_FALSE(one_seed.interval);
}

TEST(Bounds, ArmBelowTheSmallestBudget) {
  const Efficiency e = Arm({{1, 3.5}, {2, 3.52}, {3, 3.47}, {4, 3.54}}, 14);  // Delta 0.5
  EXPECT_TRUE(e.IsBound());
  EXPECT_EQ(e.q->bound, Bound::kUpper);
  EXPECT_FALSE(e.eta.interval->low > 0);
}

TEST(Bounds, JointFitBelowTheSmallestBudgetIsNotGivenAndItsLowEndIsCut) {
  const ReferenceCurve curve = Curve();
  const auto fit = [&](double loss, double spread) {
    const LossBySeed deep = {
        {1, 3.00 + loss - spread}, {2, 3.02 + loss}, {3, 2.97 + loss + spread}};
    const std::vector<DepthPoint> depths = {{14, deep}};
    return EstimateJoint(curve, curve.d0_loss_by_seed, depths);
  };
  const double floor = std::pow(0.5, 1.0 / 14);
  EXPECT_EQ(fit(0.4, 0.01).status().code(), absl::StatusCode::kFailedPrecondition);
  const JointEstimate wide = *fit(0.2, 0.1);
  EXPECT_EQ(wide.q.bound, Bound::kLowEnd);
  EXPECT_EQ(wide.q.interval->low, floor);
  EXPECT_EQ(fit(0.05, 0.001)->q.bound, Bound::kNone);
}

}  // namespace
}  // namespace longhaul
