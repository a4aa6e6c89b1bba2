#include "experiments/estimates/price_law.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kA = 0.031, kP = 0.8, kSize = -0.25, kTokens = 0.15, kTilt = 0.9;

double Truth(double n, double d, double eps, const std::vector<double>& places) {
  double cuts = 0;
  for (const double l : places) cuts += 1 + kTilt * (l - 0.5);
  return kA * std::pow(eps / 0.01, kP) * std::pow(n / 1e5, kSize) * std::pow(d / n / 20, kTokens) *
         cuts;
}

struct Cell {
  double n, d;
  size_t seeds;
};
const std::vector<Cell> kCells = {
    {35e3, 7 * 35e3, 8}, {35e3, 20 * 35e3, 10}, {119e3, 7 * 119e3, 6}, {119e3, 20 * 119e3, 5}};
const std::vector<double> kEven = {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875};
struct Arm {
  double eps;
  std::vector<double> places;
};
const std::vector<Arm> kArms = {{0.02, kEven}, {0.004, kEven}, {0.02, {0.875}}, {0.02, {0.125}}};

// Every seed of a cell moves all of its arms alike (`shared`) and each by itself (`own`).
std::vector<PricePoint> Draw(std::mt19937_64& random, double shared, double own) {
  std::vector<PricePoint> points;
  for (size_t c = 0; c < kCells.size(); ++c) {
    const auto& [n, d, seeds] = kCells[c];
    std::vector<double> luck(seeds);
    for (double& x : luck) x = shared * std::normal_distribution<>()(random);
    for (const Arm& arm : kArms) {
      const double truth = Truth(n, d, arm.eps, arm.places);
      std::vector<double> x(seeds);
      double sum = 0;
      for (size_t j = 0; j < seeds; ++j) {
        x[j] = truth * (1 + luck[j] + own * std::normal_distribution<>()(random));
        sum += x[j];
      }
      PricePoint point{c, n, d, arm.eps, arm.places, sum / static_cast<double>(seeds)};
      for (size_t j = 0; j < seeds; ++j) {
        point.without.push_back((sum - x[j]) / static_cast<double>(seeds - 1));
      }
      points.push_back(point);
    }
  }
  return points;
}

TEST(PriceLaw, ExactPricesGiveTheirLawBack) {
  std::mt19937_64 random(1);
  const auto law = FitPriceLaw(Draw(random, 0, 0));
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_THAT(law->terms, ElementsAre(PriceTerm::kLnA, PriceTerm::kEps, PriceTerm::kSize,
                                      PriceTerm::kTokens, PriceTerm::kTilt));
  EXPECT_NEAR(TermOf(*law, PriceTerm::kEps).value, kP, 1e-7);
  EXPECT_NEAR(TermOf(*law, PriceTerm::kSize).value, kSize, 1e-7);
  EXPECT_NEAR(TermOf(*law, PriceTerm::kTokens).value, kTokens, 1e-7);
  EXPECT_NEAR(TermOf(*law, PriceTerm::kTilt).value, kTilt, 1e-7);
  // Beyond what was measured, in size, tokens, error and place.
  const PricePlace far{1.7e6, 60 * 1.7e6, 0.03, {0.3, 0.6}};
  const Measured there = PriceAt(*law, far);
  EXPECT_NEAR(there.value / Truth(far.parameters, far.tokens, far.eps, far.places), 1, 1e-6);
  EXPECT_NEAR(there.interval->high, there.interval->low, 1e-6);
}

// What does not differ has no exponent, and is no reason to refuse.
TEST(PriceLaw, FitsTheTermsThatThePointsTell) {
  std::mt19937_64 random(2);
  std::vector<PricePoint> points;
  for (const PricePoint& p : Draw(random, 0, 0)) {
    if (p.cell == 1 && p.places.size() == 7) points.push_back(p);
  }
  for (PricePoint& p : points) p.cell = 0;
  auto law = FitPriceLaw(points);
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_THAT(law->terms, ElementsAre(PriceTerm::kLnA, PriceTerm::kEps));
  points[0].eps = 0;  // not recorded
  law = FitPriceLaw(points);
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_THAT(law->terms, ElementsAre(PriceTerm::kLnA));
}

// One arm at two sizes, by hand: x 0.6 and 0.3 at N 1 and 4 is an exponent of -0.5. Each cell's three
// seeds have the standard errors 0.03 and 0.03 of the mean: 5 and 10 per cent. The error of
// ln(0.3 / 0.6) / ln 4 is sqrt(0.05^2 + 0.1^2) / ln 4 = 0.0807 (to first order, and the jackknife's
// own is a little off). Satterthwaite: (v1 + v2)^2 / ((v1^2 + v2^2) / 2) = 2.94 degrees: t = 3.21.
TEST(PriceLaw, IntervalOfTwoCellsIsTheirErrorsInQuadrature) {
  const auto cell = [](size_t c, double n, double x) {
    const double s = 0.03 * std::sqrt(3.0);  // sd of the seeds
    PricePoint p{c, n, 20 * n, 0, {0.5}, x};
    for (const double e : {-s, 0.0, s}) p.without.push_back((3 * x - (x + e)) / 2);
    return p;
  };
  const auto law = FitPriceLaw(std::vector<PricePoint>{cell(0, 1e5, 0.6), cell(1, 4e5, 0.3)});
  ASSERT_TRUE(law.ok()) << law.status();
  const Measured size = TermOf(*law, PriceTerm::kSize);
  EXPECT_NEAR(size.value, -0.5, 1e-7);
  EXPECT_NEAR(size.interval->high - size.value, 3.21 * 0.0807, 0.006);
  EXPECT_NEAR(size.value - size.interval->low, 3.21 * 0.0807, 0.006);
}

// An error that belongs to no seed widens the interval in quadrature.
TEST(PriceLaw, OwnErrorsOfThePointsCount) {
  std::vector<PricePoint> points = {{0, 1e5, 2e6, 0, {0.5}, 0.5, {0.5, 0.5}, 0.05},
                                    {1, 4e5, 8e6, 0, {0.5}, 0.5, {0.5, 0.5}, 0}};
  const auto law = FitPriceLaw(points);
  ASSERT_TRUE(law.ok()) << law.status();
  const Measured size = TermOf(*law, PriceTerm::kSize);
  EXPECT_THAT(size.interval->high - size.value,
              DoubleNear(1.96 * std::log(1.1) / std::log(4), 1e-3));
}

// Drawn from the law with 10 % of luck that a seed's arms share and 12 % of each arm's own: the
// interval of every term, and of a price four times further than the largest cell, holds the truth
// nominally often. 400 draws: a standard error of 1.1 %.
TEST(PriceLaw, IntervalsHoldTheLawAsOftenAsTheySay) {
  std::mt19937_64 random(7);
  const PricePlace far{435e3, 20 * 435e3, 0.02, kEven};
  const double far_truth = Truth(far.parameters, far.tokens, far.eps, far.places);
  constexpr int kDraws = 400;
  std::vector<int> held(5);
  for (int i = 0; i < kDraws; ++i) {
    const auto law = FitPriceLaw(Draw(random, 0.10, 0.12));
    ASSERT_TRUE(law.ok()) << law.status();
    const auto holds = [](const Measured& x, double truth) {
      return x.interval->low <= truth && truth <= x.interval->high;
    };
    held[0] += holds(TermOf(*law, PriceTerm::kEps), kP);
    held[1] += holds(TermOf(*law, PriceTerm::kSize), kSize);
    held[2] += holds(TermOf(*law, PriceTerm::kTokens), kTokens);
    held[3] += holds(TermOf(*law, PriceTerm::kTilt), kTilt);
    held[4] += holds(PriceAt(*law, far), far_truth);
  }
  for (const int n : held) {
    EXPECT_GE(n, 0.92 * kDraws);
    EXPECT_LE(n, 0.985 * kDraws);
  }
}

// Drawn from the law it is all but never refused; with a bend in it, that no power of N has, it is.
// Its intervals then say how far the points are from it.
TEST(PriceLaw, PointsThatDoNotLieOnTheLawRefuseIt) {
  std::mt19937_64 random(9);
  constexpr int kDraws = 400;
  int refused = 0;
  for (int i = 0; i < kDraws; ++i) refused += FitPriceLaw(Draw(random, 0.10, 0.12))->Refused();
  EXPECT_LE(refused, 0.01 * kDraws);

  // By hand: x 0.4, 0.4 and 0.8 at N 1, 4 and 16 times 1e5, each with a standard error of 0.01. Least
  // squares of A r^i (i 0, 1, 2): A 0.32396, r 1.53961 = 4^0.31128, off by 0.0760, -0.0988, 0.0321.
  std::vector<PricePoint> bent;
  for (const auto& [n, x] : {std::pair(1e5, 0.4), {4e5, 0.4}, {16e5, 0.8}}) {
    const double s = 0.01 * std::sqrt(3.0);
    PricePoint p{bent.size(), n, 20 * n, 0, {0.5}, x};
    for (const double e : {-s, 0.0, s}) p.without.push_back((3 * x - (x + e)) / 2);
    bent.push_back(p);
  }
  const auto law = FitPriceLaw(bent);
  ASSERT_TRUE(law.ok()) << law.status();
  EXPECT_EQ(law->freedom, 1u);
  EXPECT_NEAR(TermOf(*law, PriceTerm::kSize).value, 0.31128, 1e-5);
  EXPECT_NEAR(law->misfit, 165.675, 0.01);
  EXPECT_FALSE(law->Refused()) << "three seeds cannot tell: p " << law->p_misfit;
  for (PricePoint& p : bent) {  // the same errors from 12 seeds
    p.without.clear();
    const double s = 0.01 * std::sqrt(12.0 * 11 / 12);
    for (int i = 0; i < 12; ++i) p.without.push_back(p.value - (i % 2 ? s : -s) / 11);
  }
  const auto sure = FitPriceLaw(bent);
  ASSERT_TRUE(sure.ok()) << sure.status();
  EXPECT_TRUE(sure->Refused()) << sure->p_misfit;
  // One degree of freedom: t is 12.7062, and the jackknife's variance grows by the misfit.
  const Measured size = TermOf(*sure, PriceTerm::kSize);
  double variance = 0;
  for (const auto& cell : sure->without) {
    double mean = 0;
    for (const auto& theta : cell) mean += theta[1] / 12;
    for (const auto& theta : cell) variance += 11.0 / 12 * (theta[1] - mean) * (theta[1] - mean);
  }
  const double half = 12.7062 * std::sqrt(sure->misfit * variance);
  EXPECT_NEAR(size.interval->high - size.value, half, 1e-4 * half);
  EXPECT_NEAR(size.value - size.interval->low, half, 1e-4 * half);
}

TEST(PriceLaw, WhatCannotBeFittedIsRefusedInWords) {
  const auto why = [](std::vector<PricePoint> points) {
    return std::string(FitPriceLaw(points).status().message());
  };
  EXPECT_THAT(why({}), HasSubstr("no point"));
  EXPECT_THAT(why({{0, 1e5, 2e6, 0, {0.5}, 0.5, {0.5}}}), HasSubstr("one seed"));
  EXPECT_THAT(why({{0, 1e5, 2e6, 0, {1.0}, 0.5, {0.5, 0.5}}}), HasSubstr("between 0 and 1"));
  EXPECT_THAT(why({{0, 1e5, 2e6, 0, {0.5}, -0.5, {-0.5, -0.5}}}), HasSubstr("not above 0"));
  EXPECT_THAT(why({{0, 1e5, 2e6, 0, {0.5}, 0.5, {0.5, 0.5}},
                   {0, 1e5, 2e6, 0, {0.5}, 0.5, {0.5, 0.5, 0.5}}}),
              HasSubstr("different seeds"));
  EXPECT_THAT(
      why({{0, 1e5, 2e6, 0, {0.5}, 0.5, {0.5, 0.6}}, {1, 1e5, 4e6, 0, {0.2}, 0.5, {0.5, 0.6}}}),
      HasSubstr("2 points do not tell 3 terms"));
}

}  // namespace
}  // namespace longhaul
