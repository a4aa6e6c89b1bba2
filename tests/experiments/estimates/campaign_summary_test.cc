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
  a.parameters = 434176;
  return a;
}

// sd of ln eta by seed: half 2 / 3.182446. With half = 0.031784 that is 0.019975, which is how far
// -0.03 lies from 2 ln 0.995: an effect of one sd, for which tables of the paired t test ask 10.
TEST(CampaignSummary, SaysWhatWouldSettleWhatIsOpen) {
  const double effect = 0.03 + 2 * std::log(0.995);
  const CampaignAnalysis a = With({Arm("s2", 2, -0.03, effect * 3.182446 / 2)}, "s2");
  EXPECT_EQ(
      CampaignSummary(a),
      "s2 raises the held-out loss by 0.0120 nat [-0.0007, 0.0247]; an uncompressed run reaches that "
      "loss with 3 % fewer tokens [-0.18, 6]. Not distinguishable from 0.995 at 0.434 M parameters: "
      "s2. Separating s2 from 0.995 with 80 % power takes 10 seeds, 6 more, if its mean stays (10m of "
      "runs one after another at this campaign's pace). Sensitivity of a planner (no verdict on other "
      "models): eight stages (K = 14) have an efficiency of 0.81 [0.65, 1.01] with this q and 0.93 with "
      "0.995; 0.9 or more takes q >= 0.9925.");
}

TEST(CampaignSummary, ArmsAreSortedByTheirVerdicts) {
  const CampaignAnalysis a = With({Arm("deep", 14, -0.2, 0.01), Arm("light", 14, -0.001, 0.01),
                                   Arm("far", 2, -0.02, 0.1), Arm("near", 2, -0.02, 0.012)},
                                  "deep");
  const std::string text = CampaignSummary(a);
  EXPECT_THAT(
      text,
      HasSubstr("deep raises the held-out loss by 0.0800 nat [0.0760, 0.0840]; an uncompressed "
                "run reaches that loss with 18 % fewer tokens"));
  EXPECT_THAT(
      text,
      HasSubstr("q = 0.995 per crossing is too high at 0.434 M parameters: deep. q = 0.995 per "
                "crossing is too low at 0.434 M parameters: light."));
  EXPECT_THAT(text, HasSubstr("Not distinguishable from 0.995 at 0.434 M parameters: far, near. "
                              "Separating near from 0.995"));
  EXPECT_THAT(CampaignSummary(With({Arm("light", 14, -0.001, 0.01)}, "light")),
              HasSubstr("q = 0.995 per crossing is too low at 0.434 M parameters: light."));
}

TEST(CampaignSummary, FailedControlsLeaveNothingToConclude) {
  CampaignAnalysis a = With({Arm("s2", 2, -0.03, 0.001)}, "s2");
  a.failed_controls = {"control@0.9 was recovered as 0.7"};
  EXPECT_THAT(CampaignSummary(a),
              HasSubstr("No conclusion: a control run did not recover its known efficiency."));
  EXPECT_THAT(CampaignSummary(a), Not(HasSubstr("raises")));
}

TEST(CampaignSummary, WithoutACurveThereIsNone) {
  CampaignAnalysis a = With({Arm("s2", 2, -0.03, 0.001)}, "s2");
  a.curve.reset();
  EXPECT_EQ(CampaignSummary(a), "");
}

}  // namespace
}  // namespace longhaul
