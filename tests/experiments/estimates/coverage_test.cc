// How often 95 % intervals hold the truth: 2,000 synthetic campaigns at each number of seeds. A
// share of 2,000 draws has a standard error of 0.5 %, so 93 to 97 % is four of them to each side.
#include <cmath>
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/interval.h"
#include "tests/experiments/estimates/coverage_truths.h"

namespace longhaul {
namespace {

constexpr int kCampaigns = 2000;

struct World {
  const MeasuredTruth& truth;
  double noise;  // of each run, nat
  double eta;    // of one arm; at several depths it is eta^(K / 14)
  std::vector<double> budgets = {0.35, 0.5, 0.7, 0.85, 1.0, 1.25};
  double seed_effect = 0.012;
  double trunk = 0;  // the share of its noise's variance that a reference has from its seed's trunk
};

struct Shares {
  double arm, joint;
};

Shares Covered(const World& w, int seeds, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const std::vector<int64_t> crossings = {2, 6, 14};
  int arm_hits = 0, joint_hits = 0;
  for (int campaign = 0; campaign < kCampaigns; ++campaign) {
    std::vector<ReferenceRun> reference;
    std::vector<DepthPoint> depths;
    for (const int64_t k : crossings) depths.push_back({k, {}});
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      const double common = w.seed_effect * normal(random);
      const double trunk = w.noise * std::sqrt(w.trunk) * normal(random);
      for (const double budget : w.budgets) {
        const double own = w.noise * std::sqrt(1 - w.trunk) * normal(random);
        reference.push_back({seed, budget, w.truth.Loss(budget) + common + trunk + own});
      }
      for (DepthPoint& depth : depths) {
        const double eta = std::pow(w.eta, static_cast<double>(depth.crossings) / 14);
        depth.loss_by_seed[seed] = w.truth.Loss(eta) + common + w.noise * normal(random);
      }
    }
    const ReferenceCurve curve = *FitReference(reference);
    const Efficiency arm =
        *EstimateArm(curve, curve.d0_loss_by_seed, depths.back().loss_by_seed, 14);
    const double truth = std::log(w.eta);
    arm_hits += arm.ln_eta.interval->low <= truth && truth <= arm.ln_eta.interval->high;
    const auto joint = EstimateJoint(curve, curve.d0_loss_by_seed, depths);
    if (!joint.ok()) continue;
    joint_hits += joint->a.interval->low <= -truth / 14 && -truth / 14 <= joint->a.interval->high;
  }
  return {static_cast<double>(arm_hits) / kCampaigns, static_cast<double>(joint_hits) / kCampaigns};
}

void ExpectCoverage(const World& w, std::mt19937_64& random) {
  for (const int seeds : {3, 5, 8, 16}) {
    const Shares shares = Covered(w, seeds, random);
    std::printf("eta %.3f, n = %d: arm %.2f %%, joint %.2f %%\n", w.eta, seeds, 100 * shares.arm,
                100 * shares.joint);
    EXPECT_GE(shares.arm, 0.93) << w.eta << " " << seeds;
    EXPECT_LE(shares.arm, 0.97) << w.eta << " " << seeds;
    EXPECT_GE(shares.joint, 0.93) << w.eta << " " << seeds;
    EXPECT_LE(shares.joint, 0.97) << w.eta << " " << seeds;
  }
}

// Nothing lost, the planner's 0.995, a control, and losses far from D0.
TEST(Coverage, IntervalsHoldTheTruthOfASmallModelsMeasuredCurve) {
  std::mt19937_64 random(7);
  const MeasuredTruth truth = SmallModel();
  for (const double eta : {1.0, 0.95, 0.932, 0.9, 0.75, 0.6}) {
    ExpectCoverage({truth, 0.012, eta}, random);
  }
}

TEST(Coverage, IntervalsHoldTheTruthOfTheDemosMeasuredCurve) {
  std::mt19937_64 random(9);
  const MeasuredTruth truth = DemoModel();
  for (const double eta : {1.0, 0.95, 0.9, 0.75, 0.6}) {
    ExpectCoverage({truth, 0.006, eta, {0.503, 0.65, 0.8, 1.0, 1.1}}, random);
  }
}

// Budgets of one seed that branch off one run (train.schedule = "wsd") share most of its noise, which
// the arms do not.
TEST(Coverage, IntervalsHoldTheTruthWhereBudgetsBranchOffOneTrunk) {
  std::mt19937_64 random(11);
  const MeasuredTruth truth = DemoModel();
  for (const double trunk : {0.5, 0.9, 1.0}) {
    for (const double eta : {1.0, 0.9, 0.75}) {
      ExpectCoverage({.truth = truth,
                      .noise = 0.006,
                      .eta = eta,
                      .budgets = {0.503, 0.65, 0.8, 1.0, 1.1},
                      .trunk = trunk},
                     random);
    }
  }
}

// Arms whose losses share nothing but the seed and its reference: one direction, the other, both;
// or M replicas with H steps, with 1. `weights` says what is made of them.
struct Contrast {
  std::vector<double> etas, weights;
};

struct ContrastShares {
  double covered;
  double width_ratio;  // mean half-width against t sd / (s sqrt n) with the true sd
};

ContrastShares ContrastCovered(const World& w, const Contrast& c, int seeds,
                               std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  double truth = 0, variance = 0;
  for (size_t t = 0; t < c.etas.size(); ++t) {
    truth += c.weights[t] * std::log(c.etas[t]);
    variance += c.weights[t] * c.weights[t];
  }
  double shared = 0;  // the reference's own noise enters with the sum of the weights
  for (const double weight : c.weights) shared += weight;
  const double slope = w.truth.Loss(0.99) - w.truth.Loss(1.01);
  const double sd = w.noise * std::log(1.01 / 0.99) / slope * std::sqrt(variance + shared * shared);
  const double forecast = TQuantile(0.975, seeds - 1) * sd / std::sqrt(seeds);
  int hits = 0;
  double width = 0;
  for (int campaign = 0; campaign < kCampaigns; ++campaign) {
    std::vector<ReferenceRun> reference;
    std::vector<EtaTerm> terms;
    for (const double weight : c.weights) terms.push_back({weight, {}, {}});
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      const double common = w.seed_effect * normal(random);
      for (const double budget : w.budgets) {
        const double loss = w.truth.Loss(budget) + common + w.noise * normal(random);
        reference.push_back({seed, budget, loss});
        if (budget != 1.0) continue;
        for (EtaTerm& term : terms) term.reference[seed] = loss;
      }
      for (size_t t = 0; t < terms.size(); ++t) {
        terms[t].arm[seed] = w.truth.Loss(c.etas[t]) + common + w.noise * normal(random);
      }
    }
    const EtaContrast found = *EstimateContrast(*FitReference(reference), terms);
    const Interval& interval = *found.ln.interval;
    hits += interval.low <= truth && truth <= interval.high;
    width += (interval.high - interval.low) / 2 / kCampaigns;
  }
  return {static_cast<double>(hits) / kCampaigns, width / forecast};
}

TEST(Coverage, FactorsAndInteractionsHoldTheTruthIn93To97PercentOfCampaigns) {
  std::mt19937_64 random(11);
  const MeasuredTruth truth = SmallModel();
  const World w{truth, 0.004, 1};
  for (const Contrast& c : {Contrast{{0.9, 0.97}, {1, -1}},             // eta(M,H) / eta(M,1)
                            Contrast{{0.93, 0.95, 0.98}, {1, -1, -1}},  // direction interaction
                            Contrast{{0.95, 0.98}, {0.5, 0.5}}}) {      // symmetric
    for (const int seeds : {3, 5, 8, 10}) {
      const ContrastShares shares = ContrastCovered(w, c, seeds, random);
      std::printf("%zu terms, n = %d: %.2f %%\n", c.etas.size(), seeds, 100 * shares.covered);
      EXPECT_GE(shares.covered, 0.93) << seeds;
      EXPECT_LE(shares.covered, 0.97) << seeds;
    }
  }
}

// With the true noise and slope, what the forecast says before is what comes out after: the mean of
// sd over samples of n is c4(n) of the true one.
TEST(Coverage, ForecastHalfWidthIsWithinTenPercentOfWhatComesOut) {
  std::mt19937_64 random(13);
  for (const int seeds : {3, 5, 8, 10}) {
    const MeasuredTruth truth = SmallModel();
    const World w{truth, 0.004, 0.98};
    const ContrastShares shares = ContrastCovered(w, {{w.eta}, {1}}, seeds, random);
    const double half = (seeds - 1) / 2.0;
    const double c4 = std::sqrt(1 / half) * std::exp(std::lgamma(seeds / 2.0) - std::lgamma(half));
    std::printf("n = %d: half-width %.3f of the forecast, c4 %.3f\n", seeds, shares.width_ratio,
                c4);
    EXPECT_NEAR(shares.width_ratio / c4, 1, 0.1) << seeds;
    EXPECT_NEAR(shares.width_ratio, 1, seeds >= 5 ? 0.1 : 0.2) << seeds;
  }
}

}  // namespace
}  // namespace longhaul
