#include <cmath>

#include <gtest/gtest.h>

#include "experiments/estimates/efficiency.h"

namespace longhaul {
namespace {

const std::vector<double> kWide = {0.35, 0.5, 0.65, 0.8, 1.0, 1.1};

// L = 2 + (s / beta) (D/D0)^-beta, and each seed's own level.
std::vector<ReferenceRun> Runs(double beta, const std::vector<double>& budgets, int seeds) {
  std::vector<ReferenceRun> runs;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    for (const double budget : budgets) {
      const double law = 2 + 0.4 / beta * std::pow(budget, -beta);
      runs.push_back({seed, budget, law + 0.01 * static_cast<double>(seed)});
    }
  }
  return runs;
}

TEST(FreeExponent, CurveWithoutNoiseIsFoundWithItsSlope) {
  for (const double beta : {0.12, 0.35, 0.9, 2.0}) {
    const auto curve = FitReferenceFreely(Runs(beta, kWide, 3));
    ASSERT_TRUE(curve.ok()) << curve.status();
    ASSERT_TRUE(curve->fitted_beta) << beta;
    EXPECT_NEAR(curve->beta, beta, 1e-5);
    EXPECT_NEAR(curve->slope_nat, 0.4, 1e-5) << beta;
    EXPECT_NEAR(curve->slope_se_nat, 0, 1e-5) << beta;
    for (const double budget : kWide) {
      EXPECT_NEAR(curve->LossAt(budget), 2.02 + 0.4 / beta * std::pow(budget, -beta), 1e-6);
    }
  }
}

TEST(FreeExponent, SlopesOfSeedsAverageToTheCurves) {
  std::vector<ReferenceRun> runs = Runs(0.7, kWide, 4);
  for (size_t i = 0; i < runs.size(); ++i) runs[i].loss_nat += 0.004 * std::sin(3.0 * i);
  const ReferenceCurve curve = *FitReferenceFreely(runs);
  ASSERT_TRUE(curve.fitted_beta && curve.fitted_beta->interval);
  double sum = 0;
  for (const auto& [seed, slope] : curve.slope_by_seed) sum += slope;
  EXPECT_NEAR(sum / 4, curve.slope_nat, 1e-12);
  // An exponent that is not known widens what is known of the slope.
  EXPECT_GT(curve.slope_se_nat, FitReference(runs, curve.beta)->slope_se_nat);
  EXPECT_LT(curve.fitted_beta->interval->low, curve.beta);
}

TEST(FreeExponent, ExponentIsAssumedWhereTheBudgetsCannotTell) {
  const auto assumed = [](const std::vector<ReferenceRun>& runs) {
    const auto curve = FitReferenceFreely(runs);
    return curve.ok() && !curve->fitted_beta && curve->beta == kBeta;
  };
  EXPECT_TRUE(assumed(Runs(0.9, {0.5, 0.65, 0.8, 0.9, 1.0, 1.1}, 3))) << "span 2.2";
  EXPECT_TRUE(assumed(Runs(0.9, {0.35, 0.65, 1.0, 1.1}, 3))) << "four budgets";
  EXPECT_TRUE(assumed(Runs(0.9, kWide, 2))) << "two seeds";
  EXPECT_TRUE(assumed(Runs(5.0, kWide, 3))) << "at the edge";
  std::vector<ReferenceRun> unbalanced = Runs(0.9, kWide, 3);
  unbalanced.erase(unbalanced.begin());
  EXPECT_TRUE(assumed(unbalanced)) << "a seed without a budget";
}

TEST(FreeExponent, FittedCurveIsInvertedHoweverSmallTheLoss) {
  const ReferenceCurve curve = *FitReferenceFreely(Runs(2.0, kWide, 3));
  LossBySeed arm = curve.d0_loss_by_seed;
  const double eta = 0.95;
  for (auto& [seed, loss] : arm) loss += 0.4 / 2.0 * (std::pow(eta, -2.0) - 1);
  const Efficiency e = *EstimateArm(curve, curve.d0_loss_by_seed, arm, 2);
  EXPECT_TRUE(e.exact);
  EXPECT_NEAR(e.eta.value, eta, 1e-5);
}

}  // namespace
}  // namespace longhaul
