// Of a campaign: runs that failed, diverged or are not what they should be, and what then is
// concluded.
#include "experiments/estimates/campaign_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/experiments/estimates/analysed_campaign.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

using CampaignVerdicts = AnalysedCampaign;

TEST_F(CampaignVerdicts, DivergedRunIsNeverAveragedAway) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  RunRow run = Arm(Analysed(e), "s4").outcomes[1].run;
  const int64_t again = *record_->BeginRun(run);
  ASSERT_TRUE(record_->FinishRun(again, RunStatus::kDiverged, "NaN at step 3").ok());
  const CampaignAnalysis a = Analysed(e);
  EXPECT_EQ(Arm(a, "s4").verdict(), Verdict::kDiverged);
  EXPECT_FALSE(Arm(a, "s4").off.has_value());
  EXPECT_EQ(Arm(a, "s4").note, "diverged 1 of 3");
  EXPECT_TRUE(Arm(a, "s8").off.has_value());
  EXPECT_FALSE(a.families[0].off.has_value());
  EXPECT_THAT(CampaignTable(a), HasSubstr("diverged 1 of 3"));
}

TEST_F(CampaignVerdicts, LaterSuccessReplacesAFailure) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  RunRow failed = Arm(Analysed(e), "s4").outcomes[0].run;
  failed.arm = "s4b";
  failed.stages = 4;
  ASSERT_TRUE(record_->FinishRun(*record_->BeginRun(failed), RunStatus::kFailed, "worker").ok());
  const int64_t good = *record_->BeginRun(failed);
  ASSERT_TRUE(record_->AddEvaluation(good, {1, EvalCodec::kOff, 2.8, 0.01, 1}).ok());
  ASSERT_TRUE(record_->FinishRun(good, RunStatus::kOk, "").ok());
  EXPECT_EQ(Arm(Analysed(e), "s4b").lost, 0);
  EXPECT_TRUE(Arm(Analysed(e), "s4b").off.has_value());
}

TEST_F(CampaignVerdicts, DivergedReferenceRunIsShownAndNoCurveIsFittedOverSurvivors) {
  for (const char* lost : {"reference@0.5", "reference@1"}) {
    const int64_t e = WriteSyntheticCampaign(*record_, {}, std::string("without ") + lost);
    RunRow run = Arm(Analysed(e), lost).outcomes[1].run;
    ASSERT_TRUE(
        record_->FinishRun(*record_->BeginRun(run), RunStatus::kDiverged, "NaN at step 3").ok());
    const CampaignAnalysis a = Analysed(e);
    EXPECT_FALSE(a.curve.has_value());
    EXPECT_THAT(a.curve_note, HasSubstr(std::string(lost) + " diverged 1 of 3"));
    EXPECT_FALSE(Arm(a, "s8").off.has_value());
    EXPECT_THAT(CampaignTable(a), HasSubstr(std::string(lost) + ": diverged 1 of 3"));
    EXPECT_THAT(nlohmann::json::parse(CalibrationJson(a))["activation"], SizeIs(0));
  }
}

TEST_F(CampaignVerdicts, FailedAndDivergedAreToldApart) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const std::vector<Outcome> before = Arm(Analysed(e), "s4").outcomes;
  ASSERT_TRUE(
      record_->FinishRun(*record_->BeginRun(before[0].run), RunStatus::kFailed, "killed").ok());
  EXPECT_EQ(Arm(Analysed(e), "s4").note, "failed 1 of 3");
  EXPECT_EQ(ToString(Arm(Analysed(e), "s4").verdict()), "incomplete");
  ASSERT_TRUE(
      record_->FinishRun(*record_->BeginRun(before[1].run), RunStatus::kDiverged, "NaN").ok());
  EXPECT_EQ(Arm(Analysed(e), "s4").note, "diverged or failed 2 of 3");
  EXPECT_EQ(ToString(Arm(Analysed(e), "s4").verdict()), "diverged");
}

const char kNullArm[] = R"([[arm]]
name = "null"
stages = 4
forward = "identity"
backward = "identity"
)";

TEST_F(CampaignVerdicts, IdentityCodecTestsTheNull) {
  const CampaignAnalysis a =
      Analysed(WriteSyntheticCampaign(*record_, {.more_arms = kNullArm, .with_steps = true}));
  const ArmResult& null = Arm(a, "null");
  EXPECT_EQ(null.crossings, 6);
  EXPECT_EQ(null.off->q->value, 1);
  EXPECT_TRUE(*null.off->equivalent);
  // Its zeros are no noise: they do not narrow what the other arms pool.
  EXPECT_NEAR(a.sd_delta_nat, PooledByHand(a), 1e-12);
  ASSERT_THAT(a.identities, SizeIs(1));
  EXPECT_EQ(a.identities[0].Text(),
            "lossless null against reference@1: bit-identical in 3 of 3 seeds (9 training losses, "
            "0 parameter hashes, 6 held-out losses)");
}

TEST_F(CampaignVerdicts, AAIsBitIdenticalOrSaidNotToBe) {
  const int64_t e =
      WriteSyntheticCampaign(*record_, {.control_budgets = "0.9, 1.0", .with_steps = true});
  const CampaignAnalysis a = Analysed(e);
  EXPECT_THAT(CampaignTable(a),
              HasSubstr("A/A control@1 against reference@1: bit-identical in 3 of 3 seeds (9 "
                        "training losses, 9 parameter hashes, 6 held-out losses)"));
  EXPECT_THAT(CampaignTable(a), HasSubstr("control control@1: true eta 1.0000, recovered 1.000"));
  const int64_t second = Arm(a, "control@1").outcomes[1].run.id;
  std::vector<StepRow> steps = *record_->Steps(second);
  *steps[2].parameter_hash ^= 1;
  ASSERT_TRUE(record_->AddSteps(second, steps).ok());
  const CampaignAnalysis b = Analysed(e);
  EXPECT_EQ(b.identities[0].identical_seeds, 2);
  EXPECT_EQ(b.identities[0].Text(),
            "A/A control@1 against reference@1: NOT bit-identical in 1 of 3 seeds, first at seed "
            "2, step 3: parameters: runs of this record do not repeat");
  steps[1].loss_nat = *steps[1].loss_nat + 1e-15;
  ASSERT_TRUE(record_->AddSteps(second, steps).ok());
  EXPECT_THAT(Analysed(e).identities[0].first_difference, HasSubstr("seed 2, step 2: loss 5.1"));
}

TEST_F(CampaignVerdicts, AControlThatMissesItsTruthLeavesNoConclusion) {
  SyntheticWorld w;
  w.extra_nat = {{"control@0.9", 0.05}};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  ASSERT_THAT(a.failed_controls, SizeIs(1));
  EXPECT_THAT(a.failed_controls.front(), HasSubstr("control@0.9 has a true eta of 0.9026 and was"));
  EXPECT_THAT(a.Resolvable(), testing::StartsWith("CONTROLS FAILED, no conclusion is drawn: "));
  EXPECT_THAT(CampaignTable(a), testing::StartsWith("CONTROLS FAILED, no conclusion is drawn: "));
  EXPECT_EQ(Arm(a, "s8").verdict(), Verdict::kNoConclusion);
  EXPECT_EQ(a.families.front().verdict(), Verdict::kNoConclusion);
  const nlohmann::json calibration = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_TRUE(calibration["activation"].empty());
  EXPECT_THAT(calibration["controls_failed"], SizeIs(1));
}

TEST_F(CampaignVerdicts, ARepetitionWithOtherBitsLeavesNoConclusion) {
  SyntheticWorld w;
  w.control_budgets = "0.9, 1.0";
  w.with_steps = true;
  EXPECT_TRUE(Analysed(WriteSyntheticCampaign(*record_, w)).failed_controls.empty());
  w.extra_nat = {{"control@1", 1e-9}};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w, "other"));
  ASSERT_THAT(a.failed_controls, SizeIs(1));
  EXPECT_THAT(a.failed_controls.front(), HasSubstr("NOT bit-identical in 3 of 3 seeds"));
  EXPECT_EQ(Arm(a, "s8").verdict(), Verdict::kNoConclusion);
}

TEST_F(CampaignVerdicts, OneSeedHasNoIntervalAndNoHeadline) {
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, {.seeds = 1}));
  EXPECT_THAT(a.Resolvable(), HasSubstr("no headline"));
  EXPECT_FALSE(Arm(a, "s8").off->q->interval.has_value());
  EXPECT_EQ(Arm(a, "s8").verdict(), Verdict::kNoInterval);
  EXPECT_THAT(CampaignTable(a), HasSubstr("[-]"));
  EXPECT_THAT(nlohmann::json::parse(CalibrationJson(a))["activation"], SizeIs(0));
}

TEST_F(CampaignVerdicts, UnreadablePlanGivesNoFigure) {
  const int64_t e = *record_->BeginExperiment(
      {.kind = ExperimentKind::kCampaign, .name = "torn", .plan_text = "= torn"});
  RunRow run;
  run.experiment_id = e;
  run.arm = "s2";
  ASSERT_TRUE(record_->BeginRun(run).ok());
  EXPECT_THAT(Analysed(e).Resolvable(), HasSubstr("the recorded plan cannot be read"));
}

TEST_F(CampaignVerdicts, AnEvaluationThatIsMissingIsNotADivergence) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  RunRow run = Arm(Analysed(e), "s4").outcomes[1].run;
  ASSERT_TRUE(record_->FinishRun(*record_->BeginRun(run), RunStatus::kOk, "").ok());
  const CampaignAnalysis a = Analysed(e);
  EXPECT_EQ(Arm(a, "s4").diverged, 0);
  EXPECT_EQ(Arm(a, "s4").note, "without a held-out loss: 1 of 3");
  EXPECT_EQ(ToString(Arm(a, "s4").verdict()), "incomplete");
  EXPECT_FALSE(Arm(a, "s4").off.has_value());
}

TEST(ControlVerdict, IsGivenOnlyWhereTheControlCouldHaveMissed) {
  const auto verdict = [](double truth, std::optional<Interval> interval) {
    ArmResult control;
    control.trained_fraction = truth;
    control.off = Efficiency{};
    control.off->eta = {truth, std::move(interval)};
    return control.ControlVerdict();
  };
  const auto t = [](double low, double high) { return Interval{low, high, 0.95, "t"}; };
  EXPECT_EQ(verdict(0.9, t(0.85, 0.99)), "holds the truth");
  EXPECT_EQ(verdict(0.9, t(0.85, 1.01)),
            "no verdict: the interval holds the truth and 1, which is no loss");
  EXPECT_THAT(verdict(0.9, t(0.7, 0.89)), HasSubstr("MISSES"));
  EXPECT_THAT(verdict(0.9, t(0.91, 1.2)), HasSubstr("MISSES"));
  EXPECT_EQ(verdict(1, t(0.98, 1.02)), "holds the truth");  // of the A/A arm no loss is the truth
  EXPECT_EQ(verdict(0.9, std::nullopt), "no verdict: no interval");
}

}  // namespace
}  // namespace longhaul
