// How often 95 % intervals hold the truth: 2,000 synthetic campaigns at each number of seeds. A
// share of 2,000 draws has a standard error of 0.5 %, so 93 to 97 % is four of them to each side.
#include <cmath>
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

#include "experiments/estimates/efficiency.h"

namespace longhaul {
namespace {

constexpr int kCampaigns = 2000;

struct World {
  double noise;  // of each run, nat
  double eta;    // of one arm; at several depths it is eta^(K / 14)
  double slope = 0.37, seed_effect = 0.012;
};

double Loss(const World& w, double budget) {
  return 2.0 + w.slope / kBeta * std::pow(budget, -kBeta);
}

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
      for (const double budget : {0.35, 0.5, 0.65, 0.8, 1.0, 1.1}) {
        reference.push_back({seed, budget, Loss(w, budget) + common + w.noise * normal(random)});
      }
      for (DepthPoint& depth : depths) {
        const double eta = std::pow(w.eta, static_cast<double>(depth.crossings) / 14);
        depth.loss_by_seed[seed] = Loss(w, eta) + common + w.noise * normal(random);
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

TEST(Coverage, ArmAndJointIntervalsHoldTheTruthIn93To97PercentOfCampaigns) {
  std::mt19937_64 random(7);
  // Nothing lost; the planner's 0.995; and a loss in whose interval the slope's error shows.
  for (const World& w : {World{.noise = 0.004, .eta = 1.0}, World{.noise = 0.004, .eta = 0.932},
                         World{.noise = 0.012, .eta = 0.75}}) {
    for (const int seeds : {3, 5, 8, 10}) {
      const Shares shares = Covered(w, seeds, random);
      std::printf("eta %.3f, n = %d: arm %.2f %%, joint %.2f %%\n", w.eta, seeds, 100 * shares.arm,
                  100 * shares.joint);
      EXPECT_GE(shares.arm, 0.93) << w.eta << " " << seeds;
      EXPECT_LE(shares.arm, 0.97) << w.eta << " " << seeds;
      EXPECT_GE(shares.joint, 0.93) << w.eta << " " << seeds;
      EXPECT_LE(shares.joint, 0.97) << w.eta << " " << seeds;
    }
  }
}

}  // namespace
}  // namespace longhaul
