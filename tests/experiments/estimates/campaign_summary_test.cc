#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;

// Four seeds, 100 s a run, ln eta with a 95 % interval that is `half` to each side.
ArmResult Arm(const std::string& name, int64_t crossings, double ln_eta, double half) {
  ArmResult arm{};
  arm.arm = name;
  arm.role = Role::kArm;
  arm.stages = 1 + crossings / 2;
  arm.crossings = crossings;
  arm.forward_codec = arm.backward_codec = "int8-b64";
  arm.reference = kD0Reference;
  arm.seeds = 4;
  for (int64_t seed = 1; seed <= 4; ++seed) {
    Outcome outcome{};
    outcome.run.seed = seed;
    outcome.run.begun_utc = "2026-01-01T10:00:00.000Z";
    outcome.run.finished_utc = "2026-01-01T10:01:40.000Z";
    arm.outcomes.push_back(outcome);
  }
  const auto around = [&](auto of) {
    return Measured{of(ln_eta), Interval{of(ln_eta - half), of(ln_eta + half), 0.95, "t"}};
  };
  Efficiency e{.crossings = crossings, .seeds = 4};
  e.delta_nat = {-0.4 * ln_eta,
                 Interval{-0.4 * (ln_eta + half), -0.4 * (ln_eta - half), 0.95, "t"}};
  e.ln_eta = around([](double x) { return x; });
  e.eta = around([](double x) { return std::exp(x); });
  e.q = around([&](double x) { return std::exp(x / static_cast<double>(crossings)); });
  arm.off = e;
  return arm;
}

CampaignAnalysis With(std::vector<ArmResult> arms, const std::string& primary) {
  CampaignAnalysis a;
  a.curve.emplace();
  a.arms = std::move(arms);
  a.findings.primary = primary;
  return a;
}

// sd of ln eta by seed: half 2 / 3.182446. With half = 0.031784 that is 0.019975, which is how far
// -0.03 lies from 2 ln 0.995: an effect of one sd, for which tables of the paired t test ask 10.
TEST(CampaignSummary, SaysWhatWouldSettleWhatIsOpen) {
  const double effect = 0.03 + 2 * std::log(0.995);
  const CampaignAnalysis a = With({Arm("s2", 2, -0.03, effect * 3.182446 / 2)}, "s2");
  EXPECT_EQ(
      CampaignSummary(a),
      "In words: s2 costs 0.0120 [-0.0007, 0.0247] nat, the worth of 3 % of the tokens [-0.18, "
      "6]. Not told from 0.995: s2. To tell s2 from 0.995, if it is what it seems, takes 10 "
      "seeds (80 % power): 6 more, 10m of runs one after another at this campaign's pace.");
}

TEST(CampaignSummary, ArmsAreSortedByTheirVerdicts) {
  const CampaignAnalysis a = With({Arm("deep", 14, -0.2, 0.01), Arm("light", 14, -0.001, 0.01),
                                   Arm("far", 2, -0.02, 0.1), Arm("near", 2, -0.02, 0.012)},
                                  "deep");
  const std::string text = CampaignSummary(a);
  EXPECT_THAT(text,
              HasSubstr("In words: deep costs 0.0800 [0.0760, 0.0840] nat, the worth of 18 %"));
  EXPECT_THAT(
      text, HasSubstr("costs more than planners assume (0.995) in deep. It costs less in light."));
  EXPECT_THAT(text, HasSubstr("Not told from 0.995: far, near. To tell near from 0.995"));
  EXPECT_THAT(CampaignSummary(With({Arm("light", 14, -0.001, 0.01)}, "light")),
              HasSubstr("A crossing costs less than planners assume (0.995) in light."));
}

TEST(CampaignSummary, FailedControlsLeaveNothingToConclude) {
  CampaignAnalysis a = With({Arm("s2", 2, -0.03, 0.001)}, "s2");
  a.failed_controls = {"control@0.9 was recovered as 0.7"};
  EXPECT_THAT(CampaignSummary(a), HasSubstr("nothing is concluded"));
  EXPECT_THAT(CampaignSummary(a), Not(HasSubstr("costs")));
}

TEST(CampaignSummary, WithoutACurveThereIsNone) {
  CampaignAnalysis a = With({Arm("s2", 2, -0.03, 0.001)}, "s2");
  a.curve.reset();
  EXPECT_EQ(CampaignSummary(a), "");
}

}  // namespace
}  // namespace longhaul
