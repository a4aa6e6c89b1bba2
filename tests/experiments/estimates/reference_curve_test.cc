// The reference curve: a monotone cubic through mean losses, and what it is worth. Numbers of SciPy's
// PchipInterpolator where none other is said.
#include "experiments/estimates/reference_curve.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<double> kSix = {0.35, 0.5, 0.7, 0.85, 1.0, 1.25};

// L = 2 + (0.4 / 0.9) (D/D0)^-0.9, and each seed's own level.
std::vector<ReferenceRun> BentRuns(int seeds) {
  std::vector<ReferenceRun> runs;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    for (const double budget : kSix) {
      const double law = 2 + 0.4 / 0.9 * std::pow(budget, -0.9);
      runs.push_back({seed, budget, law + 0.01 * static_cast<double>(seed)});
    }
  }
  return runs;
}

TEST(MonotoneCubic, GoesThroughItsPointsAsSciPysDoes) {
  const MonotoneCubic c = MonotoneCubic::Through({0, 1, 2.5, 4}, {5, 3, 2.5, 0});
  for (size_t i = 0; i < c.x.size(); ++i) EXPECT_EQ(c.At(c.x[i]), c.y[i]);
  EXPECT_NEAR(c.At(0.3), 4.2138, 1e-12);
  EXPECT_NEAR(c.At(1.7), 2.7522864197530863, 1e-12);
  EXPECT_NEAR(c.At(3.1), 1.836, 1e-12);
  EXPECT_NEAR(c.TangentAt(0), -2.666666666666667, 1e-12);
  EXPECT_NEAR(c.TangentAt(1), -0.6, 1e-12);
  EXPECT_NEAR(c.TangentAt(1.7), -0.2142222222222223, 1e-12);
  EXPECT_NEAR(c.TangentAt(4), -2.3333333333333335, 1e-12);
}

TEST(MonotoneCubic, IsLevelWhereThePointsTurnAndWhereAnEndWould) {
  EXPECT_THAT(
      MonotoneCubic::Through({0, 1, 3}, {1, 0, 2}).tangent,
      ElementsAre(testing::DoubleNear(-5.0 / 3, 1e-12), 0, testing::DoubleNear(7.0 / 3, 1e-12)));
  const MonotoneCubic end = MonotoneCubic::Through({0, 1, 1.5}, {4, 3.9, 0});
  EXPECT_EQ(end.tangent[0], 0);
  EXPECT_NEAR(end.tangent[1], -0.22145110410094657, 1e-12);
  EXPECT_NEAR(end.tangent[2], -10.366666666666667, 1e-12);
}

TEST(MonotoneCubic, InverseUndoesAtInsideAndOutside) {
  const MonotoneCubic c = MonotoneCubic::Through({0, 1, 2.5, 4}, {5, 3, 2.5, 0});
  for (const double x : {-0.7, 0.0, 0.1, 0.999, 1.0, 1.7, 2.5, 3.3, 4.0, 4.6}) {
    EXPECT_NEAR(c.Inverse(c.At(x)), x, 1e-12) << x;
  }
  EXPECT_EQ(c.Inverse(3), 1) << "a point's own value, to the last bit";
  // Outside: along the end's tangent; along the line from end to end where that is level.
  EXPECT_NEAR(c.At(5), 0 - 2.3333333333333335, 1e-12);
  const MonotoneCubic level = MonotoneCubic::Through({0, 1, 1.5}, {4, 3.9, 0});
  EXPECT_NEAR(level.At(-0.3), 4 + 0.3 * 4 / 1.5, 1e-12);
}

TEST(MonotoneCubic, TwoPointsAreALine) {
  const MonotoneCubic line = MonotoneCubic::Through({0, 2}, {3, 2});
  EXPECT_NEAR(line.At(0.5), 2.75, 1e-15);
  EXPECT_NEAR(line.Inverse(2.75), 0.5, 1e-12);
}

TEST(ReferenceCurve, GoesThroughTheMeanLosses) {
  const ReferenceCurve curve = *FitReference(BentRuns(3));
  for (const double budget : kSix) {
    EXPECT_NEAR(curve.LossAt(budget), 2.02 + 0.4 / 0.9 * std::pow(budget, -0.9), 1e-12);
  }
  EXPECT_NEAR(curve.slope_nat, 0.39540426536877366, 1e-10);
  EXPECT_NEAR(curve.slope_se_nat, 0, 1e-12);
  EXPECT_NEAR(curve.sigma_nat, 0.01, 1e-12);
  EXPECT_EQ(curve.smallest_budget, 0.35);
  EXPECT_THAT(curve.budgets, testing::ElementsAreArray(kSix));
}

// Each inner budget found again without its own runs; no noise here to take off.
TEST(ReferenceCurve, PseudoControlsTellItsOwnError) {
  const ReferenceCurve curve = *FitReference(BentRuns(3));
  const double errors[] = {0.010539126987672232, 0.005305617645901706, 0.0010988644548410864,
                           0.0008317600933593035};
  ASSERT_EQ(curve.pseudo_controls.size(), 4u);
  double squares = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(curve.pseudo_controls[i].budget, kSix[i + 1]);
    EXPECT_NEAR(curve.pseudo_controls[i].error.value, errors[i], 1e-10);
    squares += errors[i] * errors[i];
  }
  EXPECT_NEAR(curve.own_error, std::sqrt(squares / 4) / 2, 1e-10);
  EXPECT_THAT(CurveErrorText(curve), HasSubstr("a budget of 0.500 D0 comes out as 0.505 D0"));
  EXPECT_THAT(CurveErrorText(curve), HasSubstr("0.30 % of eta"));
}

// A loss that is a line on ln D: the pseudo-controls' errors are noise alone, which the seeds know
// of already, and no more is added.
TEST(ReferenceCurve, NoiseOfTheSeedsIsNotCountedAsItsError) {
  std::vector<ReferenceRun> runs;
  for (int64_t seed = 1; seed <= 4; ++seed) {
    for (const double budget : kSix) {
      const double noise = budget == 0.7 ? 0.02 * (seed % 2 == 0 ? 1 : -1) : 0;
      runs.push_back({seed, budget, 3 - 0.4 * std::log(budget) + noise});
    }
  }
  const ReferenceCurve curve = *FitReference(runs);
  EXPECT_EQ(curve.own_error, 0);
  ASSERT_TRUE(curve.lack_of_fit_p);
  EXPECT_GT(*curve.lack_of_fit_p, 0.5);
  // The same curve with one budget off by 0.02 nat in all seeds: the curve is wrong there.
  for (ReferenceRun& run : runs) {
    if (run.budget == 0.7) run.loss_nat = 3 - 0.4 * std::log(0.7) + 0.02 + 0.0001 * run.seed;
  }
  const ReferenceCurve off = *FitReference(runs);
  EXPECT_GT(off.own_error, 0.01);
  EXPECT_LT(*off.lack_of_fit_p, 0.001);
}

TEST(ReferenceCurve, ErrorIsNothingAtABudgetAndWholeBetweenTwo) {
  const ReferenceCurve curve = *FitReference(BentRuns(3));
  const auto error = [&](std::vector<CurveTerm> terms) { return CurveError(curve, terms); };
  EXPECT_EQ(error({{1, 0, std::log(0.7)}}), 0);
  EXPECT_EQ(error({{1, 0, 0}}), 0);
  const double middle = (std::log(0.5) + std::log(0.7)) / 2;
  EXPECT_NEAR(error({{1, 0, middle}}), curve.own_error, 1e-12);
  EXPECT_NEAR(error({{1, 0, std::log(0.6)}}), 0.002949052584421621, 1e-10);
  // Two arms of one gap share its error, two of different gaps do not.
  EXPECT_NEAR(error({{1, 0, std::log(0.6)}, {-1, 0, std::log(0.55)}}), 0.0005372191036537779,
              1e-10);
  const double next = (std::log(0.7) + std::log(0.85)) / 2;
  EXPECT_NEAR(error({{1, 0, middle}, {1, 0, next}}), std::sqrt(2) * curve.own_error, 1e-12);
  EXPECT_NEAR(error({{0.5, middle, next}}), std::sqrt(0.5) * curve.own_error, 1e-12);
  EXPECT_NEAR(error({{1, 0, std::log(1.4)}}), 0.0015083184397363322, 1e-10);
}

TEST(ReferenceCurve, OnlySeedsWithEveryBudgetCount) {
  std::vector<ReferenceRun> runs = BentRuns(3);
  std::erase_if(runs, [](const ReferenceRun& r) { return r.seed == 2 && r.budget == 0.85; });
  const ReferenceCurve curve = *FitReference(runs);
  EXPECT_THAT(curve.seeds, ElementsAre(1, 3));
  EXPECT_EQ(curve.d0_loss_by_seed.size(), 2u);
  EXPECT_NEAR(curve.LossAt(1), 2.02 + 0.4 / 0.9, 1e-12);
  std::erase_if(runs, [](const ReferenceRun& r) { return r.budget == 1.0; });
  EXPECT_EQ(FitReference(runs).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReferenceCurve, OneSeedHasNoError) {
  const ReferenceCurve curve = *FitReference(BentRuns(1));
  EXPECT_TRUE(curve.without.empty());
  EXPECT_FALSE(curve.lack_of_fit_p);
  EXPECT_FALSE(curve.pseudo_controls[0].error.interval);
}

TEST(ReferenceCurve, LossThatDoesNotFallIsRefusedWithBothBudgets) {
  std::vector<ReferenceRun> runs = BentRuns(2);
  for (ReferenceRun& run : runs) {
    if (run.budget == 0.85) run.loss_nat = 4;
  }
  const absl::Status refused = FitReference(runs).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("from 0.7 D0 (2.6"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("to 0.85 D0 (4.0000 nat)"));
}

}  // namespace
}  // namespace longhaul
