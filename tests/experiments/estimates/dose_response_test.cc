#include "experiments/estimates/dose_response.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

DosePoint Point(const std::string& arm, double forward, double backward, std::vector<double> y) {
  DosePoint point{arm, forward, backward, {}};
  for (size_t i = 0; i < y.size(); ++i) point.delta_by_seed[static_cast<int64_t>(i + 1)] = y[i];
  return point;
}

TEST(DoseResponse, KappaIsTheMeanOfTheSeedsOwnLeastSquares) {
  // eps 1 and 2: kappa_j = (y1 + 2 y2) / 5 = 1, 1.2, 1.4.
  const std::vector<DosePoint> points = {Point("a", 0.5, 0.5, {1, 1.2, 1.4}),
                                         Point("b", 1, 1, {2, 2.4, 2.8})};
  const DoseFit fit = FitDose(points);
  EXPECT_NEAR(fit.kappa->value, 1.2, 1e-12);
  const double half = 4.302653 * 0.2 / std::sqrt(3.0);
  EXPECT_NEAR(fit.kappa->interval->low, 1.2 - half, 1e-6);
  EXPECT_NEAR(fit.kappa->interval->high, 1.2 + half, 1e-6);
  EXPECT_NEAR(fit.exponent->value, 1, 1e-9);
  EXPECT_FALSE(fit.forward) << "the same mixture everywhere tells no direction from the other";
  EXPECT_EQ(fit.smallest, 1);
  EXPECT_EQ(fit.largest, 2);
}

TEST(DoseResponse, DirectionsAreToldApartByTheirArms) {
  const auto y = [](double f, double b) {
    return std::vector<double>{3 * f + 20 * b - 0.001, 3 * f + 20 * b + 0.001};
  };
  const std::vector<DosePoint> points = {Point("f", 0.05, 0, y(0.05, 0)),
                                         Point("b", 0, 0.002, y(0, 0.002)),
                                         Point("both", 0.05, 0.002, y(0.05, 0.002))};
  const DoseFit fit = FitDose(points);
  EXPECT_NEAR(fit.forward->value, 3, 1e-9);
  EXPECT_NEAR(fit.backward->value, 20, 1e-9);
}

TEST(DoseResponse, ExponentOfASquareRootIsHalf) {
  std::vector<DosePoint> points;
  for (const double eps : {0.01, 0.04, 0.16}) {
    points.push_back(Point("a", eps, 0, {0.9 * std::sqrt(eps), 1.1 * std::sqrt(eps)}));
  }
  EXPECT_NEAR(FitDose(points).exponent->value, 0.5, 1e-6);
}

TEST(DoseResponse, SeedsThatLackAnArmAreLeftOut) {
  const std::vector<DosePoint> points = {Point("a", 1, 0, {1, 2, 30}), Point("b", 2, 0, {2, 4})};
  const DoseFit fit = FitDose(points);
  EXPECT_EQ(fit.seeds, 2);
  EXPECT_NEAR(fit.kappa->value, 1.5, 1e-12);
}

TEST(DoseResponse, RatioToNoiseIsPairedBySeed) {
  const DoseFit codec = FitDose(std::vector<DosePoint>{Point("c", 1, 0, {2, 2.2, 2.4})});
  const DoseFit noise = FitDose(std::vector<DosePoint>{Point("g", 1, 0, {1, 1.1, 1.2})});
  const Measured ratio = *KappaRatio(codec, noise);
  EXPECT_NEAR(ratio.value, 2, 1e-12);
  ASSERT_TRUE(ratio.interval);  // every seed says 2: luck that both share cancels
  EXPECT_NEAR(ratio.interval->low, 2, 1e-9);
  EXPECT_NEAR(ratio.interval->high, 2, 1e-9);
  EXPECT_THAT(codec.note, HasSubstr("one dose"));
  const DoseFit faint = FitDose(std::vector<DosePoint>{Point("g", 1, 0, {-1, 0.1, 1.2})});
  EXPECT_FALSE(KappaRatio(codec, faint)) << "not told from nothing: nothing to divide by";
}

TEST(DoseResponse, NothingMeasuredGivesNothing) {
  EXPECT_FALSE(FitDose({}).kappa);
  const DoseFit one = FitDose(std::vector<DosePoint>{Point("a", 1, 0, {2})});
  EXPECT_FALSE(one.kappa->interval);
}

}  // namespace
}  // namespace longhaul
