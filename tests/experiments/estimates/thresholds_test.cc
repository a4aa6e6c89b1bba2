// Where the words of an estimate change: what headers promise of thresholds, from both sides.
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/depth_models.h"
#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/forecast.h"
#include "experiments/estimates/interval.h"
#include "experiments/estimates/step_time_summary.h"
#include "experiments/estimates/training_advice.h"

namespace longhaul {
namespace {

TEST(AgainstAssumed, AnIntervalThatTouchesThePlannersNumberHoldsIt) {
  const auto of = [](double low, double high) {
    return AgainstAssumed({0.99, Interval{low, high, 0.95, "t"}}, /*directions=*/2);
  };
  EXPECT_EQ(of(0.990, 0.995), Verdict::kNotResolved);
  EXPECT_EQ(of(0.990, std::nextafter(0.995, 0)), Verdict::kBelow);
  EXPECT_EQ(of(0.995, 0.999), Verdict::kNotResolved);
  EXPECT_EQ(of(std::nextafter(0.995, 1), 0.999), Verdict::kAbove);
}

// Four values of one standard error, sqrt((4/3) / 4) = 0.57735: five of them are 2.88675.
TEST(RatioOfMeans, IsFiellersBelowFiveStandardErrors) {
  const auto method = [](double mean) {
    const std::vector<double> x = {mean - 1, mean + 1, mean - 1, mean + 1}, y = {1, 2, 3, 5};
    return RatioOfMeans(y, x, 0.95).interval->method;
  };
  EXPECT_EQ(method(2.88674), "fieller");
  EXPECT_EQ(method(2.88676), "t");
  EXPECT_EQ(method(-2.88674), "fieller");
  EXPECT_EQ(method(-2.88676), "t");
}

std::vector<double> OneTo(int n) {
  std::vector<double> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 1.0);
  return x;
}

// Of 1,001 values the 469th and the 533rd: 500.5 less 0.98 roots of 1,001. Of 1,000 the exact
// table has the 469th and the 532nd.
TEST(MedianInterval, ChangesItsMethodAtThirtyAndItsFormulaBeyondAThousand) {
  EXPECT_FALSE(MedianOfSteps(OneTo(5)).interval.has_value());
  EXPECT_EQ(MedianOfSteps(OneTo(6)).interval->low, 1);
  EXPECT_EQ(MedianOfSteps(OneTo(29)).interval->method, "order statistics");
  EXPECT_EQ(MedianOfSteps(OneTo(30)).interval->method, "block bootstrap");
  const Measured thousand = MedianOfIndependent(OneTo(1000));
  EXPECT_EQ(thousand.value, 500.5);
  EXPECT_EQ(thousand.interval->low, 469);
  EXPECT_EQ(thousand.interval->high, 532);
  const Measured more = MedianOfIndependent(OneTo(1001));
  EXPECT_EQ(more.value, 501);
  EXPECT_EQ(more.interval->low, 469);
  EXPECT_EQ(more.interval->high, 533);
}

TEST(JudgeResidual, TheWholeIntervalIsWithinATenthOrBeyondIt) {
  const auto of = [](double low, double high, const char* note = "") {
    return JudgeResidual({(low + high) / 2, Interval{low, high, 0.95, "t"}}, note).residual;
  };
  const double below = std::nextafter(0.10, 0), above = std::nextafter(0.10, 1);
  EXPECT_EQ(of(-below, below), Residual::kWithin);
  EXPECT_EQ(of(-below, 0.10), Residual::kNotJudged);
  EXPECT_EQ(of(-0.10, below), Residual::kNotJudged);
  EXPECT_EQ(of(above, 0.3), Residual::kBeyond);
  EXPECT_EQ(of(0.10, 0.3), Residual::kNotJudged);
  EXPECT_EQ(of(-0.3, -above), Residual::kBeyond);
  EXPECT_EQ(of(-0.3, -0.10), Residual::kNotJudged);
  EXPECT_EQ(of(-0.01, 0.01, "timing disturbed"), Residual::kNotJudged);
  EXPECT_EQ(JudgeResidual({0.01, std::nullopt}, "").residual, Residual::kNotJudged);
}

TEST(DepthModels, AMissIsMoreThanTwoStandardErrors) {
  DepthFit fit{.model = DepthModel::kM1};
  for (const double z : {2.0, -2.0}) {
    fit.held_out = {{8, 14, 0.1, 0.1, z, 7, 7}};
    EXPECT_FALSE(fit.Misses()) << z;
    fit.held_out[0].z = z * (1 + 1e-12);
    EXPECT_TRUE(fit.Misses()) << z;
  }
}

// Depths are exact up to S = 8; the deepest arm loses far more. Where it is held out the fit does
// not see it, and a in -ln eta = a K is 0.005.
TEST(DepthModels, FifteenStagesJoinTheFitAndSixteenDoNot) {
  std::vector<ReferenceRun> runs;
  for (int64_t seed = 1; seed <= 3; ++seed) {
    runs.push_back({seed, 0.35, 3 - 0.4 * std::log(0.35)});
    runs.push_back({seed, 1.0, 3});
  }
  const ReferenceCurve curve = *FitReference(runs);
  const auto slope = [&](std::vector<int64_t> depths) {
    std::vector<DepthArm> arms;
    for (const int64_t stages : depths) {
      const int64_t b = stages - 1;
      const double x = stages > 8 ? 0.3 : 0.005 * 2 * static_cast<double>(b);
      DepthArm arm{stages, b, b, {}};
      for (int64_t seed = 1; seed <= 3; ++seed) arm.loss_by_seed[seed] = 3 + 0.4 * x;
      arms.push_back(std::move(arm));
    }
    return CompareDepths(curve, curve.d0_loss_by_seed, arms)->Fit(DepthModel::kM1).theta[0];
  };
  EXPECT_NEAR(slope({2, 4, 8, 16}), 0.005, 1e-6);
  EXPECT_GT(slope({2, 4, 8, 15}), 0.0065);
  EXPECT_GT(slope({16, 17}), 0.008) << "without a shallower arm they are all that there is";
}

// 80 % power: an effect of 11.6 standard deviations takes two pairs, one of 3.26 three.
TEST(PairsNeeded, AreTwoAtLeastAndAThousandAtMost) {
  EXPECT_EQ(PairsNeeded(1e9), 2);
  EXPECT_EQ(PairsNeeded(11.7), 2);
  EXPECT_EQ(PairsNeeded(11.5), 3);
  EXPECT_EQ(PairsNeeded(0.5), 34) << "(2.8016 / 0.5)^2 + 1.92 = 33.3";
  EXPECT_EQ(PairsNeeded(0.01), 1001);
}

// Five pairs find 1.68 standard deviations: at K = 6 and s = 0.3 a loss of 0.5 % per crossing is
// 0.009 nat, so that they may spread by 0.00536.
TEST(Forecast, AnEffectOfHalfAPercentIsJustSeen) {
  const double sd = 0.005 * 6 * 0.3 / DetectableEffect(5);
  EXPECT_NEAR(sd, 0.00536, 0.00003);
  EXPECT_FALSE(Unresolved(5, {sd * (1 - 1e-9), 0.5, 0.3, "pilot"}, {4, 6}));
  EXPECT_TRUE(Unresolved(5, {sd * (1 + 1e-9), 0.5, 0.3, "pilot"}, {4, 6}));
}

TEST(Advice, IsGivenBelowFivePercentAndNotAtIt) {
  RunSpec spec{};
  spec.train.steps = 200;
  spec.train.warmup_steps = 10;
  EXPECT_TRUE(WarmUpAdvice(spec).empty());
  spec.train.warmup_steps = 9;
  EXPECT_EQ(WarmUpAdvice(spec).size(), 1u);
  const auto clipped = [](const char* value) {
    RunRow run{};
    run.facts["stage_0_clipped_steps"] = value;
    return ClippingAdvice(std::span(&run, 1)).size();
  };
  EXPECT_EQ(clipped("10 of 200"), 0u);
  EXPECT_EQ(clipped("9 of 200"), 1u);
}

}  // namespace
}  // namespace longhaul
