#include "experiments/estimates/interval.h"

#include <cmath>

#include <gtest/gtest.h>

#include "experiments/estimates/forecast.h"

namespace longhaul {
namespace {

TEST(StudentT, QuantilesOfTheTables) {
  EXPECT_NEAR(TQuantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(TQuantile(0.975, 2), 4.30265, 1e-5);
  EXPECT_NEAR(TQuantile(0.975, 30), 2.04227, 1e-5);
  EXPECT_NEAR(TQuantile(0.5, 3), 0, 1e-12);
}

TEST(FisherF, TailsOfTheTables) {
  EXPECT_NEAR(FTail(161.4476, 1, 1), 0.05, 1e-6);
  EXPECT_NEAR(FTail(4.9646, 1, 10), 0.05, 1e-5);
  EXPECT_NEAR(FTail(3.3258, 5, 10), 0.05, 1e-5);
  EXPECT_NEAR(FTail(0, 3, 4), 1, 1e-12);
}

// The planning table: n, t/sqrt(n), smallest effect with 80 % power by the exact noncentral t.
TEST(StudentT, HalfWidthsAndDetectableEffectsOfThePlanningTable) {
  const struct {
    int n;
    double half_width, effect;
  } rows[] = {{2, 8.99, 11.6},    {3, 2.48, 3.26},    {4, 1.59, 2.13},    {5, 1.24, 1.68},
              {6, 1.05, 1.44},    {8, 0.836, 1.16},   {10, 0.715, 0.996}, {12, 0.635, 0.889},
              {16, 0.533, 0.749}, {20, 0.468, 0.660}, {32, 0.361, 0.511}};
  for (const auto& row : rows) {
    EXPECT_NEAR(TQuantile(0.975, row.n - 1) / std::sqrt(row.n), row.half_width,
                0.006 * row.half_width)
        << row.n;
    EXPECT_NEAR(DetectableEffect(row.n), row.effect, 0.006 * row.effect) << row.n;
  }
}

// Pairs needed to see q = 0.995: sigma, slope, rho, then S = 2, 4, 8.
TEST(StudentT, PairsNeededOfThePlanningTable) {
  const struct {
    double sigma, slope, rho;
    int s2, s4, s8;
  } rows[] = {
      {0.0013, 0.25, 0.0, 7, 3, 3},  {0.0013, 0.25, 0.5, 5, 3, 2}, {0.0013, 0.25, 0.8, 4, 3, 2},
      {0.003, 0.3, 0.0, 18, 5, 3},   {0.003, 0.3, 0.5, 10, 4, 3},  {0.003, 0.3, 0.8, 6, 3, 3},
      {0.005, 0.25, 0.0, 65, 10, 4}, {0.005, 0.25, 0.5, 34, 6, 3}, {0.005, 0.25, 0.8, 15, 4, 3}};
  for (const auto& row : rows) {
    const Noise noise{row.sigma, row.rho, row.slope, "assumed"};
    const auto needed = [&](int stages) {
      return PairsNeeded(-std::log(0.995) * 2 * (stages - 1) * row.slope / noise.SdDelta());
    };
    EXPECT_EQ(needed(2), row.s2) << row.sigma << " " << row.rho;
    EXPECT_EQ(needed(4), row.s4) << row.sigma << " " << row.rho;
    EXPECT_EQ(needed(8), row.s8) << row.sigma << " " << row.rho;
  }
}

TEST(Forecast, SentenceOfTheWorkedExample) {
  const Depth stages[] = {{2, 2}, {4, 6}, {8, 14}};
  EXPECT_EQ(ForecastSentence(5, {0.003, 0.5, 0.30, "pilot"}, stages),
            "n = 5, sigma 0.0030, rho 0.5 (pilot), s 0.30: 95% half-width on q is 0.0062 at S=2, "
            "0.0021 at S=4, 0.0009 at S=8; a loss of 0.5% per crossing is NOT resolvable at S = "
            "2.");
  EXPECT_TRUE(Unresolved(5, {0.003, 0.5, 0.30, "pilot"}, {2, 2}));
  EXPECT_FALSE(Unresolved(5, {0.003, 0.5, 0.30, "pilot"}, {4, 6}));
}

TEST(Forecast, OneSeedResolvesNothing) {
  const Depth stages[] = {{8, 14}};
  EXPECT_TRUE(Unresolved(1, {1e-6, 0.5, 0.30, "pilot"}, {8, 14}));
  EXPECT_NE(ForecastSentence(1, {0.003, 0.5, 0.30, "assumed"}, stages).find("no interval"),
            std::string::npos);
}

}  // namespace
}  // namespace longhaul
