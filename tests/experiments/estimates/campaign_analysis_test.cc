#include "experiments/estimates/campaign_analysis.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/step_time_summary.h"
#include "tests/experiments/estimates/analysed_campaign.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

using CampaignAnalysisTest = AnalysedCampaign;

TEST_F(CampaignAnalysisTest, NoiselessWorldGivesBackItsTruth) {
  SyntheticWorld w{.q = 0.99, .noise_nat = 0, .codec_on_extra_nat = 0};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  ASSERT_TRUE(a.curve) << a.curve_note;
  EXPECT_NEAR(a.curve->slope_nat, w.slope_nat, 1e-9);
  EXPECT_NEAR(Arm(a, "s8").off->q->value, w.q, 1e-9);  // inverted: exact
  EXPECT_NEAR(Arm(a, "s4").off->q->value, w.q, 2e-4);  // the local form
  const ArmResult& control = Arm(a, "control@0.9");
  EXPECT_EQ(control.trained_fraction, 176.0 / 195);  // whole steps of 2048 tokens
  EXPECT_NEAR(control.off->eta.value, control.trained_fraction, 1e-9);
  EXPECT_EQ(control.off->q, std::nullopt);
  ASSERT_THAT(a.families, SizeIs(1));
  EXPECT_EQ(a.families[0].codecs, "int4-b64-h64 / int8-b64");
  EXPECT_NEAR(a.families[0].off->q.value, w.q, 1e-6);
  EXPECT_NEAR(a.families[0].bits_per_element, 6.25, 0.05);
  EXPECT_EQ(a.parameters, 436352);
}

TEST_F(CampaignAnalysisTest, TableAndEstimatesOfANoisyCampaign) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const absl::StatusOr<std::string> table = AnalyseCampaign(*record_, e);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(*table, HasSubstr("are invisible in this"));
  EXPECT_THAT(*table, HasSubstr("s8"));
  EXPECT_THAT(*table, HasSubstr("control control@0.9: true eta 0.9026, recovered 0."));
  int with_interval = 0;
  const std::vector<EstimateRow> rows = *record_->Estimates(e);
  for (const EstimateRow& row : rows) {
    with_interval += row.quantity == "q" && row.low && row.value && *row.low <= *row.value &&
                     *row.value <= *row.high;
  }
  EXPECT_EQ(with_interval, 8);  // three arms and their joint fit, codec off and on
}

const char kLearningRateArm[] = R"([[arm]]
name = "s8-lr"
stages = 8
forward = "int4-b64-h64"
backward = "int8-b64"
train.lr = 2e-3
)";

TEST_F(CampaignAnalysisTest, ArmHeldOutHasAQAndJoinsNoFit) {
  const std::string arms = R"([[arm]]
name = "out"
stages = 8
forward = "int4-b64-h64"
backward = "int8-b64"
held_out = true
)";
  const CampaignAnalysis a =
      Analysed(WriteSyntheticCampaign(*record_, {.more_arms = arms, .extra_nat = {{"out", 0.05}}}));
  EXPECT_TRUE(Arm(a, "out").off->q.has_value());
  ASSERT_THAT(a.families, SizeIs(1));
  for (const ArmResult* arm : a.families[0].arms) EXPECT_NE(arm->arm, "out");
}

// One boundary with the identity codec, and two stages of which the first is the longer.
TEST_F(CampaignAnalysisTest, CutsAreNoChangeAndTheNullOfOneBoundaryIsHeldToItsReference) {
  const std::string arms = R"([[arm]]
name = "one"
stages = 4
forward = "none"
backward = "none"
boundary.cuts.1 = { forward = "identity" }
[[arm]]
name = "late"
stages = 2
schedule.cuts = [6]
forward = "int4-b64-h64"
backward = "int8-b64"
)";
  const SyntheticWorld w{.noise_nat = 0, .codec_on_extra_nat = 0, .more_arms = arms};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  EXPECT_EQ(Arm(a, "one").crossings, 1);
  EXPECT_EQ(Arm(a, "one").forward_codec, "identity at 1");
  EXPECT_TRUE(std::any_of(a.identities.begin(), a.identities.end(),
                          [](const IdentityCheck& check) { return check.arm == "one"; }));
  EXPECT_TRUE(Arm(a, "late").changes.empty());
  EXPECT_NEAR(Arm(a, "late").off->q->value, w.q, 1e-3);
  // Where it cuts is no depth: it joins no fit with arms of equal stages.
  EXPECT_THAT(a.families[0].arms, SizeIs(3));
}

TEST_F(CampaignAnalysisTest, LossOfAChangeBesideCodecsIsNotBookedOnCrossings) {
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(
      *record_, {.more_arms = kLearningRateArm, .extra_nat = {{"s8-lr", 0.05}}}));
  const ArmResult& arm = Arm(a, "s8-lr");
  ASSERT_TRUE(arm.off.has_value());
  EXPECT_TRUE(arm.off->eta.interval.has_value());
  EXPECT_FALSE(arm.off->q.has_value());
  EXPECT_FALSE(arm.on->q.has_value());
  EXPECT_EQ(arm.verdict(), Verdict::kNoQ);
  EXPECT_EQ(arm.reference, "reference@1");
  EXPECT_THAT(arm.changes, testing::ElementsAre(SpecChange{"train.lr", "0.003", "0.002"}));
  EXPECT_THAT(CampaignTable(a), HasSubstr("no q: train.lr 0.003 > 0.002"));
  ASSERT_THAT(a.families, SizeIs(1));
  EXPECT_THAT(a.families[0].arms, SizeIs(3));
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(a));
  for (const nlohmann::json& entry : json["activation"]) {
    EXPECT_EQ(entry["arms"], (nlohmann::json{"s2", "s4", "s8"}));
    EXPECT_THAT(entry["by_S"], SizeIs(3));
    EXPECT_EQ(entry["by_S"][2]["arm"], "s8");
  }
  const nlohmann::json& last = json["arms"].back();
  EXPECT_EQ(last["arm"], "s8-lr");
  EXPECT_EQ(last["changes"][0]["key"], "train.lr");
  EXPECT_FALSE(last["off"].contains("q"));
  EXPECT_THAT(last["off"]["eta"]["ci"], SizeIs(2));
  for (const EstimateRow& row : ToEstimates(a)) {
    EXPECT_FALSE(row.arm == "s8-lr" && row.quantity == "q");
  }
}

TEST_F(CampaignAnalysisTest, PairedArmWithTheSameChangeGivesTheQBack) {
  const std::string arms = std::string(kLearningRateArm) + R"(reference = "s1-lr"
[[arm]]
name = "s1-lr"
stages = 1
forward = "none"
backward = "none"
train.lr = 2e-3
)";
  // The change alone costs 0.05 nat in both, the 14 crossings what they cost elsewhere.
  const SyntheticWorld w{.q = 0.995,
                         .noise_nat = 0,
                         .codec_on_extra_nat = 0,
                         .more_arms = arms,
                         .extra_nat = {{"s8-lr", 0.05}, {"s1-lr", 0.05}}};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  EXPECT_EQ(Arm(a, "s8-lr").reference, "s1-lr");
  EXPECT_NEAR(Arm(a, "s8-lr").off->q->value, Arm(a, "s8").off->q->value, 1e-9);
  EXPECT_FALSE(Arm(a, "s1-lr").off->q.has_value());
  EXPECT_EQ(Arm(a, "s1-lr").verdict(), Verdict::kNoQ);
  ASSERT_THAT(a.families, SizeIs(2));  // never fitted with arms of the other reference
  EXPECT_THAT(a.families[1].arms, SizeIs(1));
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_EQ(json["activation"].back()["reference"], "s1-lr");
}

TEST_F(CampaignAnalysisTest, ArmBelowTheSmallestBudgetIsABoundEverywhere) {
  const CampaignAnalysis a =
      Analysed(WriteSyntheticCampaign(*record_, {.q = 0.995, .extra_nat = {{"s8", 0.6}}}));
  const ArmResult& s8 = Arm(a, "s8");
  EXPECT_TRUE(s8.off->IsBound());
  EXPECT_EQ(s8.off->q->bound, Bound::kUpper);
  EXPECT_EQ(s8.verdict(), Verdict::kBelow);
  const std::string table = CampaignTable(a);
  EXPECT_THAT(table, HasSubstr("<= 0.50 "));
  EXPECT_THAT(table, HasSubstr("<= 0.9520"));
  EXPECT_THAT(table, Not(HasSubstr("[0.50,")));
  EXPECT_THAT(table, HasSubstr("no joint q: arm 's8': below the smallest reference budget"));
  EXPECT_FALSE(a.families[0].off.has_value());
  EXPECT_FALSE(a.families[0].on.has_value());
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_THAT(json["activation"], SizeIs(0));
  const nlohmann::json& eta = json["arms"][2]["off"]["eta"];
  EXPECT_EQ(eta["bound"], "<=");
  EXPECT_FALSE(eta.contains("ci"));
  for (const EstimateRow& row : ToEstimates(a)) {
    if (row.arm != "s8" || row.quantity != "q") continue;
    EXPECT_EQ(row.method, "<=");
    EXPECT_FALSE(row.low.has_value() || row.high.has_value());
    EXPECT_THAT(row.note, HasSubstr("upper bound"));
  }
}

TEST(WithIntervalText, BoundsCarryTheirSign) {
  const Interval interval{0.4, 0.6, 0.95, "t"};
  EXPECT_EQ(WithInterval({0.5, interval}, 2), "0.50 [0.40, 0.60]");
  EXPECT_EQ(WithInterval({0.5, {}}, 2), "0.50 [-]");
  EXPECT_EQ(WithInterval({0.6, interval, Bound::kUpper}, 2), "<= 0.60");
  EXPECT_EQ(WithInterval({0.6, {}, Bound::kUpper}, 2), "<= 0.60 [-]");
  EXPECT_EQ(WithInterval({0.5, interval, Bound::kLowEnd}, 2), "0.50 [<= 0.40, 0.60]");
}

// What scatters far below the curve says nothing of the noise in which a small loss is looked for.
TEST_F(CampaignAnalysisTest, AnArmBelowTheCurveIsNotPooled) {
  const CampaignAnalysis a =
      Analysed(WriteSyntheticCampaign(*record_, {.extra_nat = {{"s8", 2.0}}}));
  ASSERT_TRUE(Arm(a, "s8").off->IsBound());
  EXPECT_NEAR(a.sd_delta_nat, PooledByHand(a, {"control@0.9", "s2", "s4"}), 1e-12);
}

// Pooled by hand: sd_delta over controls and arms with a q, rho = 1 - sd_delta^2 / (2 sigma^2).
TEST_F(CampaignAnalysisTest, RhoAndPooledDifferencesByHand) {
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(
      *record_, {.more_arms = kLearningRateArm, .extra_nat = {{"s8-lr", 0.05}}}));
  const double sd = PooledByHand(a), sigma = a.curve->sigma_nat;
  EXPECT_NEAR(a.sd_delta_nat, sd, 1e-12);
  EXPECT_NEAR(a.rho, 1 - sd * sd / (2 * sigma * sigma), 1e-12);
  EXPECT_GT(a.rho, 0.1);
}

TEST_F(CampaignAnalysisTest, EstimatesAreSavedUnderTheirOwnExperiment) {
  const int64_t first = WriteSyntheticCampaign(*record_, {.q = 0.99}, "first");
  const int64_t second = WriteSyntheticCampaign(*record_, {.q = 0.97}, "second");
  ASSERT_TRUE(AnalyseCampaign(*record_, second).ok());
  EXPECT_THAT(*record_->Estimates(first), SizeIs(0));
  const std::vector<EstimateRow> rows = *record_->Estimates(second);
  EXPECT_FALSE(rows.empty());
  ASSERT_TRUE(AnalyseCampaign(*record_, first).ok());
  const auto q_of = [&](int64_t e) {
    const std::vector<EstimateRow> all = *record_->Estimates(e);
    for (const EstimateRow& row : all) {
      if (row.arm == "s8" && row.quantity == "q" && row.evaluation == "off") return *row.value;
    }
    return 0.0;
  };
  EXPECT_NEAR(q_of(first), 0.99, 0.003);
  EXPECT_NEAR(q_of(second), 0.97, 0.003);
  EXPECT_FALSE(AnalyseCampaign(*record_, second + 1).ok());
}

TEST_F(CampaignAnalysisTest, StepTimesOfShapedRunsMatchTheirPrediction) {
  const int64_t e = WriteSyntheticShapedRuns(*record_, 1.05);
  const std::vector<RunRow> runs = *record_->Runs(e);
  for (const RunRow& run : runs) {
    const RunSpec spec = *ReadRunSpec(*ParseToml(run.spec_toml, "record"), TestNames());
    const absl::StatusOr<StepTime> t = AnalyseStepTime(*record_, run, spec);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->p2_s.has_value(), run.arm != "one-process");
    if (!t->p2_s) continue;
    EXPECT_NEAR(t->residual.value, std::log(1.05), 0.005);
    ASSERT_TRUE(t->residual.interval);
    EXPECT_LT(t->residual.interval->low, std::log(1.05));
    EXPECT_GT(t->residual.interval->high, std::log(1.05));
    EXPECT_GT(*t->p1_s, *t->p2_s);
    EXPECT_NEAR(*t->outer_measured_s, 0.055, 1e-12);
    EXPECT_EQ(t->outer_steps, 4);
    EXPECT_NEAR(t->outer_least_s, 0.055, 1e-12);
    EXPECT_NEAR(t->outer_most_s, 0.055, 1e-12);
    // 2 messages were 250 kB: 125 kB each at 100 Mbit/s, and half of 65 ms.
    EXPECT_NEAR(*t->outer_predicted_s, 62'500.0 * 8 * 1514 / 1448 / 100e6 + 0.0325, 1e-9);
    const absl::StatusOr<std::string> text = StepTimeSummary(*record_, run.id, spec);
    ASSERT_TRUE(text.ok());
    EXPECT_THAT(*text, HasSubstr("within 0.10"));
    EXPECT_THAT(*text, Not(HasSubstr("disturbed")));
  }
}

// The same run, with one thing in its record that makes its times no evidence.
TEST_F(CampaignAnalysisTest, StepTimesOfADisturbedRunGetNoVerdict) {
  const int64_t e = WriteSyntheticShapedRuns(*record_, 1.05);
  RunRow run;
  const std::vector<RunRow> runs = *record_->Runs(e);
  for (const RunRow& row : runs) {
    if (row.arm != "one-process") run = row;
  }
  const RunSpec spec = *ReadRunSpec(*ParseToml(run.spec_toml, "record"), TestNames());
  const auto verdict_with = [&](const std::string& fact, const std::string& value) {
    RunRow changed = run;
    changed.facts[fact] = value;
    if (value.empty()) changed.facts.erase(fact);
    return JudgeResidual(*AnalyseStepTime(*record_, changed, spec)).text;
  };
  EXPECT_EQ(verdict_with("still_share", "0.009"), "within 0.10");
  EXPECT_THAT(verdict_with("still_share", "0.011"), HasSubstr("a worker did not run for 1.1 %"));
  EXPECT_EQ(verdict_with("core_wait_share", "0.05"), "within 0.10");
  EXPECT_THAT(verdict_with("core_wait_share", "0.051"), HasSubstr("waited for a core for 5.1 %"));
  EXPECT_EQ(verdict_with("stolen_share", "0.01"), "within 0.10");
  EXPECT_THAT(verdict_with("stolen_share", "0.02"), HasSubstr("the host took"));
  EXPECT_EQ(verdict_with("emulator_p99_in_bound", "yes"), "within 0.10");
  EXPECT_THAT(verdict_with("emulator_p99_in_bound", "no"), HasSubstr("left the emulator"));
  EXPECT_THAT(verdict_with("cores", "1"), HasSubstr("share 1 cores"));
  EXPECT_THAT(verdict_with("still_share", ""), HasSubstr("the record does not say"));
  for (const RunStatus status : {RunStatus::kInvalid, RunStatus::kPartial, RunStatus::kFailed}) {
    RunRow changed = run;
    changed.status = status;
    EXPECT_EQ(JudgeResidual(*AnalyseStepTime(*record_, changed, spec)).text,
              "no verdict: the run is " + std::string(ToString(status)));
  }
}

TEST(JudgeResidual, TheWholeIntervalMustLieOnOneSide) {
  const auto verdict = [](double value, double low, double high) {
    return JudgeResidual({value, Interval{low, high, 0.95, "t"}}, "").residual;
  };
  EXPECT_EQ(verdict(0, -0.099, 0.099), Residual::kWithin);
  EXPECT_EQ(verdict(0, -0.101, 0.099), Residual::kNotJudged);
  EXPECT_EQ(verdict(0.09, 0.05, 0.12), Residual::kNotJudged);
  EXPECT_EQ(verdict(0.2, 0.101, 0.3), Residual::kBeyond);
  EXPECT_EQ(verdict(-0.2, -0.3, -0.101), Residual::kBeyond);
  EXPECT_EQ(verdict(-0.2, -0.3, 0.3), Residual::kNotJudged);
  EXPECT_EQ(JudgeResidual({0.01, std::nullopt}, "").text,
            "no verdict: too few values for an interval");
}

}  // namespace
}  // namespace longhaul
