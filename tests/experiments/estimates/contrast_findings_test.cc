#include "experiments/estimates/contrast_findings.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/campaign_analysis.h"
#include "tests/experiments/estimates/analysed_campaign.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr double kSlope = 0.37, kLoss = 0.005;  // of a crossing, -ln q

class ContrastFindingsTest : public AnalysedCampaign {
 protected:
  Findings Found(SyntheticWorld world) {
    world.slope_nat = kSlope;
    world.q = std::exp(-kLoss);
    world.seeds = 5;
    world.noise_nat = 1e-6;
    return Analysed(world).findings;
  }
  static const ContrastFinding* Find(const Findings& f, const std::string& name) {
    for (const ContrastFinding& c : f.contrasts) {
      if (c.name.find(name) != std::string::npos) return &c;
    }
    return nullptr;
  }
  static std::string CutArm(int64_t block) {  // of 8
    return fmt::format(
        "[[arm]]\nname = \"l{0}\"\nstages = 2\nforward = \"int4-b64-h64\"\nbackward = "
        "\"int8-b64\"\nschedule.cuts = [{0}]\n",
        block);
  }
  static std::string RateArms(double lr) {
    return fmt::format(
        "[[arm]]\nname = \"none-lr{0}\"\nstages = 1\nforward = \"none\"\nbackward = \"none\"\n"
        "train.lr = {0}\n"
        "[[arm]]\nname = \"s4-lr{0}\"\nstages = 4\nforward = \"int4-b64-h64\"\nbackward = "
        "\"int8-b64\"\ntrain.lr = {0}\nreference = \"none-lr{0}\"\n",
        lr);
  }
};

// -ln eta of a cut at v = l/L - 1/2: 2 kLoss + 0.04 v + 0.03 v^2, its noise none.
SyntheticWorld Tilted() {
  SyntheticWorld world;
  for (const int64_t block : {1, 2, 6, 7}) {
    const double v = static_cast<double>(block) / 8 - 0.5;
    world.extra_nat[fmt::format("l{}", block)] = kSlope * (0.04 * v + 0.03 * v * v);
  }
  return world;
}

TEST_F(ContrastFindingsTest, TiltAndBowOfPositionsAreGivenBack) {
  SyntheticWorld world = Tilted();
  for (const int64_t block : {1, 2, 6, 7}) world.more_arms += CutArm(block);
  const Findings f = Found(world);
  const ContrastFinding *tilt = Find(f, "M6, tilt"), *bow = Find(f, "M6, bow");
  ASSERT_TRUE(tilt && bow);
  ASSERT_TRUE(tilt->value && bow->value) << tilt->note << bow->note;
  EXPECT_EQ(tilt->seeds, 5);
  EXPECT_NEAR(tilt->value->value, 0.04, 2e-4);
  EXPECT_NEAR(bow->value->value, 0.06, 2e-3);
  ASSERT_TRUE(tilt->value->interval);
  EXPECT_LT(tilt->value->interval->low, 0.04 + 2e-4);
  EXPECT_GT(tilt->value->interval->high, 0.04 - 2e-4);
}

// S = 4 cuts at 2/8, 4/8 and 6/8, all of which an arm has alone; S = 8 does not.
TEST_F(ContrastFindingsTest, DeeperArmsAreHeldAgainstTheSumOfTheirCuts) {
  SyntheticWorld world;
  for (const int64_t block : {1, 2, 6, 7}) world.more_arms += CutArm(block);
  world.extra_nat["s4"] = -kSlope * 0.01;  // loses less than its cuts alone
  const Findings f = Found(world);
  const ContrastFinding* sum = Find(f, "s4 less the sum of its 3 cuts");
  ASSERT_TRUE(sum && sum->value);
  EXPECT_NEAR(sum->value->value, -0.01, 2e-4);
  EXPECT_EQ(Find(f, "s8 less the sum"), nullptr);
}

TEST_F(ContrastFindingsTest, TheRateIsNotBookedOnTheCodec) {
  SyntheticWorld world;
  world.more_arms = RateArms(0.002) + RateArms(0.004);
  // The smoke campaign's rate is 0.003. Both sides are best at other rates.
  world.extra_nat = {{"none-lr0.002", 0.02},
                     {"none-lr0.004", 0.03},
                     {"s4-lr0.002", 0.02 - 0.01},
                     {"s4-lr0.004", 0.03 + 0.01},
                     {"s4", 0.02}};
  const Findings f = Found(world);
  const ContrastFinding* slope = Find(f, "slope of ln eta over ln lr");
  ASSERT_TRUE(slope && slope->value) << (slope ? slope->note : "");
  EXPECT_LT(slope->value->value, 0) << "a higher rate costs the codec more";
  const ContrastFinding* best = Find(f, "ln eta at the best rates (0.002 against 0.003)");
  ASSERT_TRUE(best && best->value);
  EXPECT_NEAR(best->value->value, -6 * kLoss - 0.01 / kSlope, 2e-3);
}

TEST_F(ContrastFindingsTest, WithoutTheBlocksThereIsNothingToSay) {
  EXPECT_TRUE(Found({}).contrasts.empty());
}

}  // namespace
}  // namespace longhaul
