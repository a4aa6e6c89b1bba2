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

// Four seeds at D0/2, D0 and 2 D0. Their slopes, 0.35 times that of the least-squares line on
// x = 2^0.35, 1, 2^-0.35: 0.355834, 0.391366, 0.327397 and 0.372796.
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

TEST(Tables, SlopeOfTheReferenceCurveItsErrorAndItsSystematicPart) {
  const ReferenceCurve curve = Curve();
  EXPECT_NEAR(curve.slope_nat, 0.361848268, 1e-9);
  EXPECT_NEAR(curve.slope_se_nat, 0.013298289, 1e-9);
  EXPECT_NEAR(curve.slope_at_beta_low, 0.364193599, 1e-9);
  EXPECT_NEAR(curve.slope_at_beta_high, 0.357623782, 1e-9);
}

// Variances at the three budgets: 22 e-4, 8.9167 e-4, 1.6667 e-4; three degrees of freedom each.
TEST(Tables, SigmaIsPooledOverBudgets) {
  EXPECT_NEAR(Curve().sigma_nat, std::sqrt((22 + 8.916667 + 1.666667) * 1e-4 / 3), 1e-8);
  // With one seed short of a budget the budgets weigh by their degrees of freedom, 1 and 2.
  const std::vector<ReferenceRun> runs = {{1, 0.5, 3.30}, {1, 1.0, 3.00}, {2, 0.5, 3.40},
                                          {2, 1.0, 3.03}, {3, 1.0, 3.06}, {3, 2.0, 2.70}};
  const double half = 0.005, d0 = 0.0009;  // variances: (0.1)^2 / 2; 2 (0.03)^2 / 2
  EXPECT_NEAR(FitReference(runs)->sigma_nat, std::sqrt((half + 2 * d0) / 3), 1e-12);
}

// Delta = {0.02, 0.04, 0.01}: mean 0.023333, sd 0.0152753, t(2) = 4.302653.
TEST(Tables, MeanDifferenceHasTheTIntervalOfNMinusOne) {
  const Efficiency e = Arm(kThreeSeeds, 6);
  ExpectInterval(e.delta_nat, 0.023333333, -0.014612497, 0.061279164, 1e-8);
  EXPECT_NEAR(e.sd_delta_nat, 0.015275252, 1e-9);
}

// The mean slope of seeds 1 to 3 is 0.358199; the curve's, of four seeds, 0.361848 is the better
// one. Delta method with the covariance of differences and slopes, then the local form.
TEST(Tables, SmallLossTakesTheLocalFormAndTheCurvesOwnSlope) {
  const Efficiency e = Arm(kThreeSeeds, 6);
  EXPECT_FALSE(e.exact);
  ExpectInterval(e.ln_eta, -0.064483750, -0.155046193, 0.026078693, 1e-8);
  ExpectInterval(e.eta, std::exp(-0.064483750), std::exp(-0.155046193), std::exp(0.026078693),
                 1e-8);
  ExpectInterval(*e.q, std::exp(-0.064483750 / 6), std::exp(-0.155046193 / 6),
                 std::exp(0.026078693 / 6), 1e-8);
}

// Mean Delta 0.09, Delta / s = 0.248723: inverted, -ln(1 + 0.35 * 0.248723) / 0.35.
TEST(Tables, LargeLossInvertsTheCurve) {
  const Efficiency e = Arm(kFourSeeds, 14);
  EXPECT_TRUE(e.exact);
  ExpectInterval(e.ln_eta, -0.238486922, -0.310418213, -0.164697820, 1e-8);
  EXPECT_NEAR(e.eta_at_beta_low.value, std::pow(1 + 0.2 * 0.09 / 0.364193599, -1 / 0.2), 1e-8);
  EXPECT_NEAR(e.eta_at_beta_high.value, std::pow(1 + 0.5 * 0.09 / 0.357623782, -1 / 0.5), 1e-8);
}

// Both depths together, over seeds 1 to 3, which have both.
TEST(Tables, JointFitOverTwoDepths) {
  const ReferenceCurve curve = Curve();
  const std::vector<DepthPoint> depths = {{6, kThreeSeeds}, {14, kFourSeeds}};
  const JointEstimate joint = *EstimateJoint(curve, curve.d0_loss_by_seed, depths);
  EXPECT_EQ(joint.seeds, 3);
  ExpectInterval(joint.a, 0.018663787, 0.011851567, 0.025476007, 1e-8);
  ExpectInterval(joint.q, std::exp(-0.018663787), std::exp(-0.025476007), std::exp(-0.011851567),
                 1e-8);
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

// Twenty values that grow by 35 %: acceleration 0.0642. SciPy with 200,000 resamples says
// [3.002, 10.617]; without acceleration it would be [2.726, 9.943].
TEST(Tables, BcaOfASkewedSample) {
  std::vector<double> x;
  for (int i = 0; i < 20; ++i) x.push_back(0.1 * std::pow(1.35, i));
  const auto mean = [&](std::span<const size_t> at) {
    double sum = 0;
    for (const size_t i : at) sum += x[i];
    return sum / static_cast<double>(at.size());
  };
  const std::optional<Interval> interval = BcaInterval(20, mean, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 3.002, 0.08);
  EXPECT_NEAR(interval->high, 10.617, 0.3);
  EXPECT_FALSE(BcaInterval(19, mean, 0.95));
}

// Slopes all 0.4; Delta = {-0.0004, 0, 0.0004}: the 90 % interval of ln eta is +-2.919986 * 0.0004
// / sqrt(3) / 0.4 = +-0.0016859, and the margin 0.002 K.
TEST(Tables, EquivalenceIsTheNinetyPercentIntervalInsideTheMargin) {
  ReferenceCurve curve{.slope_nat = 0.4, .smallest_budget = 0.5};
  LossBySeed reference;
  for (int64_t seed : {1, 2, 3}) {
    curve.slope_by_seed[seed] = 0.4;
    reference[seed] = 3.0;
  }
  curve.slope_at_beta_low = curve.slope_at_beta_high = 0.4;
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
// change, though against the curve's D0 runs it were {0.13, 0.15}. The slope stays the curve's.
TEST(Tables, NamedReferenceIsSubtractedAndTheSlopeStays) {
  ReferenceCurve curve{.slope_nat = 0.5, .smallest_budget = 0.5};
  curve.slope_by_seed = {{1, 0.5}, {2, 0.5}};
  curve.d0_loss_by_seed = {{1, 3.0}, {2, 3.0}};
  curve.slope_at_beta_low = curve.slope_at_beta_high = 0.5;
  const LossBySeed changed = {{1, 3.10}, {2, 3.10}};
  const Efficiency e = *EstimateArm(curve, changed, {{1, 3.13}, {2, 3.15}}, 2);
  EXPECT_NEAR(e.delta_nat.value, 0.04, 1e-12);
  EXPECT_NEAR(e.ln_eta.value, -0.08, 1e-12);
  EXPECT_NEAR(e.q->value, std::exp(-0.04), 1e-12);
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

TEST(Bounds, OtherBetasAreCutToo) {
  const Efficiency e = Arm({{1, 3.5}, {2, 3.52}, {3, 3.47}, {4, 3.54}}, 14);  // Delta 0.5
  EXPECT_TRUE(e.IsBound());
  EXPECT_EQ(e.q->bound, Bound::kUpper);
  EXPECT_EQ(e.eta_at_beta_low.bound, Bound::kUpper);
  EXPECT_EQ(e.eta_at_beta_high.bound, Bound::kUpper);
  EXPECT_EQ(e.eta_at_beta_low.value, 0.5);
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
