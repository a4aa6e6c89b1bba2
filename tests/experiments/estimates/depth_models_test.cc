#include "experiments/estimates/depth_models.h"

#include <cmath>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/depth_ensemble.h"
#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// A line of 0.4 nat per e-fold, from 0.35 D0; the D0 loss is 3 plus the seed's own.
ReferenceCurve Curve(int seeds) {
  std::vector<ReferenceRun> runs;
  for (int64_t seed = 1; seed <= seeds; ++seed) {
    const double own = 3 + 0.01 * static_cast<double>(seed);
    runs.push_back({seed, 0.35, own - 0.4 * std::log(0.35)});
    runs.push_back({seed, 1.0, own});
  }
  return *FitReference(runs);
}

using Truth = std::function<double(double forward, double backward)>;  // -ln eta

// Noise of one seed and arm: a fixed pattern of mean zero.
double Pattern(int64_t seed, int64_t k, double size, int seeds) {
  const double centred = static_cast<double>(seed) - 0.5 * (seeds + 1);
  return size * centred * (k % 4 == 2 ? 1 : -1);
}

struct Depth {
  int64_t stages;
  bool forward = true, backward = true;
};

std::vector<DepthArm> Arms(const ReferenceCurve& curve, const std::vector<Depth>& depths,
                           const Truth& truth, double noise) {
  std::vector<DepthArm> arms;
  const auto x = [&](const Depth& d) {
    const double b = static_cast<double>(d.stages - 1);
    return truth(d.forward ? b : 0, d.backward ? b : 0);
  };
  for (const Depth& d : depths) {
    const int64_t b = d.stages - 1;
    DepthArm arm{d.stages, d.forward ? b : 0, d.backward ? b : 0, {}};
    for (const auto& [seed, loss] : curve.d0_loss_by_seed) {
      arm.loss_by_seed[seed] = loss + 0.4 * x(d) +
                               Pattern(seed, arm.forward + arm.backward, noise,
                                       static_cast<int>(curve.d0_loss_by_seed.size()));
    }
    arms.push_back(std::move(arm));
  }
  return arms;
}

DepthComparison Compared(const std::vector<Depth>& depths, const Truth& truth, double noise = 1e-5,
                         int seeds = 5) {
  const ReferenceCurve curve = Curve(seeds);
  return *CompareDepths(curve, curve.d0_loss_by_seed, Arms(curve, depths, truth, noise));
}

const std::vector<Depth> kBoth = {{2}, {4}, {8}};

TEST(DepthModels, EachTruthIsGivenBackByItsModel) {
  const auto m1 = Compared(kBoth, [](double f, double b) { return 0.005 * (f + b); });
  EXPECT_NEAR(m1.Fit(DepthModel::kM1).theta[0], 0.005, 1e-5);
  EXPECT_NEAR(m1.gamma()->value, 1, 0.01);
  const auto m3 = Compared(kBoth, [](double f, double b) { return -std::log(1 - 0.02 * (f + b)); });
  EXPECT_NEAR(m3.Fit(DepthModel::kM3).theta[0], 0.02, 1e-4);
  EXPECT_EQ(m3.chosen, DepthModel::kM3);
  const auto m4 = Compared(kBoth, [](double f, double b) { return 0.05 * std::pow(f + b, 0.5); });
  EXPECT_NEAR(m4.Fit(DepthModel::kM4).theta[0], 0.05, 1e-3);
  EXPECT_NEAR(m4.gamma()->value, 0.5, 0.01);
  EXPECT_EQ(m4.chosen, DepthModel::kM4);
  const auto m5 =
      Compared(kBoth, [](double f, double b) { return 0.3 * (1 - std::exp(-(f + b) / 2 / 3.0)); });
  EXPECT_NEAR(m5.Fit(DepthModel::kM5).theta[0], 0.1, 1e-3);      // A / tau
  EXPECT_NEAR(m5.Fit(DepthModel::kM5).theta[1], 1 / 3.0, 1e-3);  // 1 / tau
  EXPECT_EQ(m5.chosen, DepthModel::kM5);
}

TEST(DepthModels, DirectionsApartNeedArmsWithOneDirection) {
  const Truth truth = [](double f, double b) { return 0.010 * f + 0.002 * b; };
  const auto both = Compared(kBoth, truth);
  EXPECT_TRUE(both.Fit(DepthModel::kM2).theta.empty());
  EXPECT_THAT(both.Fit(DepthModel::kM2).note, HasSubstr("do not determine"));
  const auto all = Compared({{2}, {4}, {8}, {4, true, false}, {4, false, true}}, truth);
  EXPECT_NEAR(all.Fit(DepthModel::kM2).theta[0], 0.010, 1e-4);
  EXPECT_NEAR(all.Fit(DepthModel::kM2).theta[1], 0.002, 1e-4);
  EXPECT_EQ(all.chosen, DepthModel::kM2);
}

TEST(DepthModels, AdditiveAndMultiplicativeLossCannotBeToldApartAtTheAssumedSize) {
  const auto c = Compared(
      kBoth, [](double f, double b) { return 0.005 * (f + b); }, 0.002);
  EXPECT_EQ(c.chosen, DepthModel::kM1);
  EXPECT_THAT(c.alike, testing::Contains(DepthModel::kM3));
  EXPECT_THAT(c.Words(), HasSubstr("M1 stands; M3"));
  EXPECT_THAT(c.Words(), HasSubstr("cannot be told apart from it"));
}

TEST(DepthModels, EveryDepthButTheShallowestIsPredictedFromTheOthers) {
  const auto c = Compared(kBoth, [](double f, double b) { return 0.02 * std::pow(f + b, 0.4); });
  const DepthFit& m1 = c.Fit(DepthModel::kM1);
  ASSERT_EQ(m1.held_out.size(), 2u);
  EXPECT_EQ(m1.held_out[0].stages, 4);
  EXPECT_EQ(m1.held_out[1].stages, 8);
  // From S = 2 and 4 alone: a = (2 x2 + 6 x4 - 8 mean) / (40 - 64 / 3), with the reference at 0.
  const double x2 = 0.02 * std::pow(2, 0.4), x4 = 0.02 * std::pow(6, 0.4);
  const double mean = (x2 + x4) / 3;
  const double a = (2 * x2 + 6 * x4 - 8 * mean) / (40 - 64 / 3.0);
  EXPECT_NEAR(m1.held_out[1].predicted, 14 * a, 1e-3);
  EXPECT_NEAR(m1.held_out[1].measured, 0.02 * std::pow(14, 0.4), 1e-4);
  EXPECT_GT(m1.held_out[1].z, 2);
  EXPECT_TRUE(m1.Misses());
  EXPECT_FALSE(c.Fit(DepthModel::kM4).Misses());
}

TEST(DepthModels, SixteenStagesTestTheFitAndJoinNone) {
  // What holds up to S = 8 breaks at 16.
  const Truth truth = [](double f, double b) { return f + b > 14 ? 0.3 : 0.005 * (f + b); };
  const auto c = Compared({{2}, {4}, {8}, {16}}, truth);
  const DepthFit& m1 = c.Fit(DepthModel::kM1);
  EXPECT_NEAR(m1.theta[0], 0.005, 1e-4);
  ASSERT_EQ(m1.held_out.size(), 3u);
  EXPECT_EQ(m1.held_out[2].stages, 16);
  EXPECT_LT(m1.held_out[2].z, -2);
  EXPECT_TRUE(m1.Misses());
}

TEST(DepthModels, AiccCountsSeedEffectsAndTheVariance) {
  const auto c = Compared(
      kBoth, [](double f, double b) { return 0.005 * (f + b); }, 0.001);
  const DepthFit &m1 = c.Fit(DepthModel::kM1), &m4 = c.Fit(DepthModel::kM4);
  // 5 seeds, 4 points each: one more parameter costs 2 + 2*8*9/11 - 2*7*8/12 and gains what it
  // fits.
  const double more = 2 + 2 * 8 * 9 / 11.0 - 2 * 7 * 8 / 12.0;
  ASSERT_TRUE(m1.aicc && m4.aicc);
  EXPECT_NEAR(*m4.aicc - *m1.aicc, more, 1e-3);  // the pattern's mean is zero: it fits no better
}

TEST(DepthModels, FormOfThePlannerHasTheSameLossAtEveryDepth) {
  const auto c = Compared(kBoth, [](double f, double b) { return 0.05 * std::pow(f + b, 0.5); });
  const Measured a = *c.PerBoundary(2);
  EXPECT_NEAR(a.value * std::pow(7, c.gamma()->value), c.Fit(DepthModel::kM4).MinusLnEta(7, 7),
              1e-9);
  ASSERT_TRUE(a.interval);
  EXPECT_LT(a.interval->low, a.value);
}

TEST(DepthModels, DepthIsMissedFromEitherSide) {
  DepthFit fit{.model = DepthModel::kM1};
  for (const auto& [z, missed] :
       {std::pair(-2.5, true), {2.5, true}, {-1.9, false}, {0.0, false}}) {
    fit.held_out = {{8, 14, 0.1, 0.1, z, 7, 7}};
    EXPECT_EQ(fit.Misses(), missed) << z;
  }
}

TEST(DepthModels, OneDepthHasNoShape) {
  const ReferenceCurve curve = Curve(5);
  const auto arms = Arms(
      curve, {{8}}, [](double f, double b) { return 0.005 * (f + b); }, 1e-3);
  EXPECT_FALSE(CompareDepths(curve, curve.d0_loss_by_seed, arms).ok());
}

TEST(DepthModels, OneSeedGivesNoIntervalAndNoZ) {
  const auto c = Compared(
      kBoth, [](double f, double b) { return 0.005 * (f + b); }, 0, 1);
  EXPECT_FALSE(c.gamma().has_value());
  EXPECT_TRUE(c.Fit(DepthModel::kM1).held_out.empty());
  EXPECT_EQ(c.chosen, DepthModel::kM1);
}

TEST(EtaContrast, InteractionCarriesSeedsThroughTheSum) {
  ReferenceCurve curve = Curve(3);
  const LossBySeed reference = {{1, 3.0}, {2, 3.1}, {3, 3.2}};
  // Deltas: both .020 .024 .028; forward .010 .012 .014; backward .004 .004 .004; s = 0.4.
  const LossBySeed both = {{1, 3.020}, {2, 3.124}, {3, 3.228}};
  const LossBySeed forward = {{1, 3.010}, {2, 3.112}, {3, 3.214}};
  const LossBySeed backward = {{1, 3.004}, {2, 3.104}, {3, 3.204}};
  const std::vector<EtaTerm> terms = {
      {1, reference, both}, {-1, reference, forward}, {-1, reference, backward}};
  const EtaContrast c = *EstimateContrast(curve, terms);
  EXPECT_EQ(c.seeds, 3);
  EXPECT_NEAR(c.ln.value, -(0.024 - 0.012 - 0.004) / 0.4, 1e-9);
  // By seed -(.006, .008, .010) / .4: sd .005, over sqrt 3, times t(.975, 2).
  const double half = 4.302653 * 0.005 / std::sqrt(3.0);
  EXPECT_NEAR(c.ln.interval->low, c.ln.value - half, 1e-6);
  EXPECT_NEAR(c.ln.interval->high, c.ln.value + half, 1e-6);
}

TEST(EtaContrast, TermBelowTheSmallestBudgetGivesNone) {
  const ReferenceCurve curve = Curve(2);
  const auto at = [&](double eta) {
    LossBySeed losses = curve.d0_loss_by_seed;
    for (auto& [seed, loss] : losses) loss -= 0.4 * std::log(eta);
    return losses;
  };
  const LossBySeed& reference = curve.d0_loss_by_seed;
  const EtaContrast c = *EstimateContrast(
      curve, std::vector<EtaTerm>{{1, reference, at(0.6)}, {-1, reference, at(0.95)}});
  EXPECT_NEAR(c.ln.value, std::log(0.6 / 0.95), 1e-12);
  EXPECT_TRUE(EstimateContrast(curve, std::vector<EtaTerm>{{1, reference, at(0.36)}}).ok());
  EXPECT_FALSE(EstimateContrast(curve, std::vector<EtaTerm>{{1, reference, at(0.34)}}).ok());
}

TEST(Holm, StepsDownInOrderOfPAndNeverBack) {
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  // Sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, the last held up to .06.
  EXPECT_THAT(HolmAdjusted(p), testing::Pointwise(testing::DoubleNear(1e-12),
                                                  std::vector<double>{0.03, 0.06, 0.06, 0.02}));
  EXPECT_THAT(HolmAdjusted(std::vector<double>{0.7, 0.6}),
              testing::Pointwise(testing::DoubleNear(1e-12), std::vector<double>{1, 1}));
}

TEST(Holm, PairedPIsTheTTests) {
  // mean 2, se 1/sqrt(3): t = 3.4641 with 2 degrees of freedom.
  EXPECT_NEAR(PairedP(std::vector<double>{1, 2, 3}), 0.0741799, 1e-6);
  EXPECT_EQ(PairedP(std::vector<double>{1}), 1);
  EXPECT_EQ(PairedP(std::vector<double>{0, 0, 0}), 1);
  EXPECT_NEAR(TwoSidedP(TQuantile(0.975, 4), 4), 0.05, 1e-12);
}

constexpr int64_t kFar[] = {12, 16, 32};

double WeightOf(const DepthEnsemble& ensemble, DepthModel model) {
  for (const DepthEnsemble::Member& member : ensemble.members) {
    if (member.model == model) return member.weight;
  }
  return 0;
}

TEST(DepthEnsemble, WhoPredictsUnseenDepthsBestHasTheWeight) {
  const auto straight =
      PredictDepths(Compared(
                        kBoth, [](double f, double b) { return 0.005 * (f + b); }, 1e-3),
                    2, 8, kFar);
  ASSERT_TRUE(straight.has_value());
  double sum = 0;
  for (const auto& member : straight->members) sum += member.weight;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(straight->at[1].ln_eta, -0.005 * 30, 0.02);
  const auto bent = PredictDepths(
      Compared(kBoth, [](double f, double b) { return 0.3 * (1 - std::exp(-(f + b) / 2 / 3.0)); }),
      2, 8, kFar);
  EXPECT_GT(WeightOf(*bent, DepthModel::kM5), 0.9);
  EXPECT_NEAR(bent->at[2].ln_eta, -0.3, 0.03);
  const auto power = PredictDepths(
      Compared(kBoth, [](double f, double b) { return 0.02 * std::pow(f + b, 0.4); }), 2, 8, kFar);
  EXPECT_GT(WeightOf(*power, DepthModel::kM4), 0.5);
  EXPECT_NEAR(power->at[0].ln_eta, -0.02 * std::pow(22, 0.4), 0.01);
}

// The prediction by hand: M1 alone (one direction, a member each weighted by its own error), n = 3.
TEST(DepthEnsemble, IntervalsCoverTheTruthAndWidenWithDepth) {
  const auto c = Compared(
      {{2}, {4}, {8}}, [](double f, double b) { return 0.006 * (f + b); }, 2e-3);
  const auto e = PredictDepths(c, 2, 8, kFar);
  ASSERT_TRUE(e.has_value());
  double before = 0;
  for (const auto& p : e->at) {
    const double truth = -0.006 * 2 * static_cast<double>(p.stages - 1);
    EXPECT_LE(p.interval.low, truth) << p.stages;
    EXPECT_GE(p.interval.high, truth) << p.stages;
    EXPECT_GT(p.interval.high - p.interval.low, before);
    before = p.interval.high - p.interval.low;
  }
  // At least t(4) times the held-out error of the member that errs least, grown from S = 8 to 32.
  double least = 1;
  for (const auto& member : e->members) least = std::min(least, member.held_out_rms);
  EXPECT_GE(-e->at[2].interval.low + e->at[2].ln_eta, TQuantile(0.975, 4) * least * 31 / 7 * 0.999);
}

TEST(DepthEnsemble, NothingIsGainedByCompressionAndOneSeedPredictsNothing) {
  const auto gain = PredictDepths(
      Compared(kBoth, [](double f, double b) { return -0.002 * (f + b); }), 2, 8, kFar);
  ASSERT_TRUE(gain.has_value());
  for (const auto& p : gain->at) {
    EXPECT_EQ(p.ln_eta, 0);
    EXPECT_EQ(p.interval.high, 0);
  }
  EXPECT_FALSE(PredictDepths(Compared(
                                 kBoth, [](double f, double b) { return 0.005 * (f + b); }, 0, 1),
                             2, 8, kFar)
                   .has_value());
}

}  // namespace
}  // namespace longhaul
