#include "experiments/estimates/campaign_analysis.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/step_time_summary.h"
#include "tests/experiments/analysed_campaign.h"
#include "tests/experiments/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class CampaignAnalysisTest : public AnalysedCampaign {
 protected:
  static const ArmResult& Arm(const CampaignAnalysis& a, const std::string& name) {
    for (const ArmResult& arm : a.arms) {
      if (arm.arm == name) return arm;
    }
    ADD_FAILURE() << name;
    return a.arms.front();
  }

  // sd of the paired differences of the arms with a q and the control, three seeds each.
  static double PooledByHand(const CampaignAnalysis& a) {
    double squares = 0;
    for (const char* name : {"control@0.9", "s2", "s4", "s8"}) {
      const auto& deltas = Arm(a, name).off->delta_by_seed;
      double mean = 0;
      for (const auto& [seed, delta] : deltas) mean += delta / 3;
      for (const auto& [seed, delta] : deltas) squares += (delta - mean) * (delta - mean);
    }
    return std::sqrt(squares / (4 * 2));  // two degrees of freedom each
  }
};

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
  EXPECT_THAT(*table, HasSubstr("invisible in this design"));
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

TEST_F(CampaignAnalysisTest, OneSeedHasNoIntervalAndNoHeadline) {
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, {.seeds = 1}));
  EXPECT_THAT(a.Resolvable(), HasSubstr("no headline"));
  EXPECT_FALSE(Arm(a, "s8").off->q->interval.has_value());
  EXPECT_EQ(Arm(a, "s8").verdict(), Verdict::kNoInterval);
  EXPECT_THAT(CampaignTable(a), HasSubstr("[-]"));
  EXPECT_THAT(nlohmann::json::parse(CalibrationJson(a))["activation"], SizeIs(0));
}

TEST_F(CampaignAnalysisTest, DivergedRunIsNeverAveragedAway) {
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

TEST_F(CampaignAnalysisTest, LaterSuccessReplacesAFailure) {
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

CampaignSpec NextCampaign(std::vector<std::string> sets, const std::string& arms = R"([[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = "int8-b64"
)") {
  TomlValue root = *ParseToml(R"([campaign]
name = "next"
question = "?"
seeds = [1, 2, 3]
d0_tokens = 400000
budgets = [0.5, 1.0]
)" + arms,
                              "next.toml");
  Merge(root, *ParseToml(kRunToml, "next.toml"));
  Erase(root, "seed");
  Erase(root, "train.tokens");
  sets.insert(sets.begin(), {"eval.rows=2048", "net.transport=loopback"});
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok());
  return *ReadCampaign(root, TestNames());
}

TEST_F(CampaignAnalysisTest, ForecastUsesAPilotOnlyWhenThereIsOne) {
  const CampaignSpec campaign = NextCampaign({});
  const ResolutionForecast before = *ForecastFor(campaign, &*record_);
  EXPECT_THAT(before.text, HasSubstr("assumed, no pilot"));
  EXPECT_THAT(before.text, HasSubstr("smoke campaign: 3 seeds"));
  WriteSyntheticCampaign(*record_, {.noise_nat = 1e-4});
  const ResolutionForecast after = *ForecastFor(campaign, &*record_);
  EXPECT_THAT(after.text, HasSubstr("pilot 'smoke'"));
  EXPECT_TRUE(after.primary_resolvable);
}

TEST_F(CampaignAnalysisTest, PilotOfAnotherModelOrBudgetIsRefusedInOneLine) {
  WriteSyntheticCampaign(*record_, {.noise_nat = 1e-4});
  const struct {
    const char *set, *why;
  } others[] = {{"model.width=128", "model.width 128 > 64"},
                {"campaign.d0_tokens=100000", "train.tokens 100000 > 400000"},
                {"train.lr=1e-3", "train.lr 0.001 > 0.003"},
                {"data.source=text:/x", "data.source \"text:/x\" > \"headers\""},
                {"eval.rows=64", "eval.rows 64 > 2048"}};
  for (const auto& other : others) {
    const ResolutionForecast forecast = *ForecastFor(NextCampaign({other.set}), &*record_);
    EXPECT_THAT(
        forecast.text,
        HasSubstr(std::string("\nCampaign 'smoke' of this record is no pilot for this one: ") +
                  other.why + ".\n"));
    EXPECT_THAT(forecast.text, HasSubstr("assumed, no pilot"));
    EXPECT_FALSE(forecast.primary_resolvable) << other.set;
  }
  // How runs are executed changes no loss.
  const CampaignSpec elsewhere = NextCampaign({"limits.threads=2", "schedule.kind=gpipe"});
  EXPECT_THAT(ForecastFor(elsewhere, &*record_)->text, HasSubstr("pilot 'smoke'"));
}

TEST_F(CampaignAnalysisTest, ForecastOfOneDirectionHasHalfTheCrossings) {
  const auto text = [&](const std::string& backward) {
    const CampaignSpec campaign = NextCampaign({}, R"([[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = ")" + backward + "\"\n");
    return ForecastFor(campaign, nullptr)->text;
  };
  // sd_delta / s = 0.015 / 0.37; t(2) / sqrt(3) = 2.484138; over 14 and over 7 crossings.
  EXPECT_THAT(text("int8-b64"), HasSubstr("0.0072 at S=8;"));
  EXPECT_THAT(text("none"), HasSubstr("0.0144 at S=8 one way;"));
}

TEST_F(CampaignAnalysisTest, ForecastSaysWhenThePrimaryHasNoQ) {
  const CampaignSpec campaign = NextCampaign({}, R"([[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = "int8-b64"
train.lr = 1e-3
)");
  EXPECT_THAT(ForecastFor(campaign, nullptr)->text, HasSubstr("an efficiency, not a q"));
}

TEST_F(CampaignAnalysisTest, PlannerConclusionFollowsTheInterval) {
  const auto verdict = [&](double q, const std::string& name) {
    const CampaignAnalysis a =
        Analysed(WriteSyntheticCampaign(*record_, {.q = q, .noise_nat = 3e-4}, name));
    return EightStageVerdict(a.families[0]);
  };
  EXPECT_EQ(verdict(0.9990, "a"), "unchanged");
  EXPECT_EQ(verdict(0.9925, "b"), "undetermined");
  EXPECT_EQ(verdict(0.9800, "c"), "flips");
}

TEST_F(CampaignAnalysisTest, CalibrationHasTheActivationPart) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(Analysed(e)));
  EXPECT_EQ(json["schema"], "calibration/1");
  EXPECT_THAT(std::string(json["plan_sha256"]), SizeIs(64));
  ASSERT_THAT(json["activation"], SizeIs(2));
  const nlohmann::json& off = json["activation"][0];
  EXPECT_EQ(off["eval"], "off");
  EXPECT_EQ(off["direction"], "both");
  EXPECT_EQ(off["by_S"].size(), 3u);
  EXPECT_LE(off["q_ci"][0], off["q"]);
  EXPECT_NEAR(off["ratio"], 16 / 6.25, 0.05);
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
  EXPECT_THAT(table, HasSubstr("<= 0.503"));
  EXPECT_THAT(table, HasSubstr("<= 0.9520"));
  EXPECT_THAT(table, Not(HasSubstr("[0.503")));
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

TEST_F(CampaignAnalysisTest, OneDirectionHasHalfTheCrossingsInThePlannersTableToo) {
  const std::string arms = R"([[arm]]
name = "f4"
stages = 4
forward = "int4-b64-h64"
backward = "none"
)";
  const SyntheticWorld w{.q = 0.98, .noise_nat = 0, .codec_on_extra_nat = 0, .more_arms = arms};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  EXPECT_EQ(Arm(a, "f4").crossings, 3);
  ASSERT_THAT(a.families, SizeIs(2));
  const Family& forward = a.families[1];
  EXPECT_EQ(forward.directions(), 1);
  EXPECT_NEAR(forward.bits_per_element, 4.25, 0.05);  // of what is compressed
  const std::vector<PlannedDepth> depths = PlannedDepths(forward);
  ASSERT_THAT(depths, SizeIs(3));
  for (const PlannedDepth& depth : depths) {
    const double k = static_cast<double>(depth.stages - 1);
    EXPECT_NEAR(depth.assumed, std::pow(0.995, k), 1e-12);
    EXPECT_NEAR(depth.measured.value, std::pow(0.98, k), 2e-3) << depth.stages;
    EXPECT_EQ(depth.direct, depth.stages == 4);
  }
  EXPECT_NEAR(PlannedDepths(a.families[0])[2].assumed, std::pow(0.995, 14), 1e-12);
  const nlohmann::json json = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_EQ(json["activation"].back()["by_S"][0]["crossings"], 3);
  EXPECT_EQ(json["activation"].back()["direction"], "forward");
}

TEST_F(CampaignAnalysisTest, DivergedReferenceRunIsShownAndNoCurveIsFittedOverSurvivors) {
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

TEST_F(CampaignAnalysisTest, FailedAndDivergedAreToldApart) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const std::vector<Outcome> before = Arm(Analysed(e), "s4").outcomes;
  ASSERT_TRUE(
      record_->FinishRun(*record_->BeginRun(before[0].run), RunStatus::kFailed, "killed").ok());
  EXPECT_EQ(Arm(Analysed(e), "s4").note, "failed 1 of 3");
  ASSERT_TRUE(
      record_->FinishRun(*record_->BeginRun(before[1].run), RunStatus::kDiverged, "NaN").ok());
  EXPECT_EQ(Arm(Analysed(e), "s4").note, "diverged or failed 2 of 3");
}

const char kNullArm[] = R"([[arm]]
name = "null"
stages = 4
forward = "identity"
backward = "identity"
)";

TEST_F(CampaignAnalysisTest, IdentityCodecTestsTheNull) {
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

TEST_F(CampaignAnalysisTest, AAIsBitIdenticalOrSaidNotToBe) {
  const int64_t e =
      WriteSyntheticCampaign(*record_, {.control_budgets = "0.9, 1.0", .with_steps = true});
  const CampaignAnalysis a = Analysed(e);
  EXPECT_THAT(CampaignTable(a),
              HasSubstr("A/A control@1 against reference@1: bit-identical in 3 of 3 seeds (9 "
                        "training losses, 9 parameter hashes, 6 held-out losses)"));
  EXPECT_THAT(CampaignTable(a), HasSubstr("control control@1: true eta 1.0000, recovered 1.000"));
  const int64_t second = Arm(a, "control@1").outcomes[1].run.id;
  std::vector<StepRow> steps = *record_->Steps(second);
  steps[2].parameter_hash ^= 1;
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

TEST_F(CampaignAnalysisTest, UnreadablePlanGivesNoFigure) {
  const int64_t e = *record_->BeginExperiment(
      {.kind = ExperimentKind::kCampaign, .name = "torn", .plan_text = "= torn"});
  RunRow run;
  run.experiment_id = e;
  run.arm = "s2";
  ASSERT_TRUE(record_->BeginRun(run).ok());
  EXPECT_THAT(Analysed(e).Resolvable(), HasSubstr("the recorded plan cannot be read"));
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
    // 2 messages were 250 kB: 125 kB each at 100 Mbit/s, and half of 65 ms.
    EXPECT_NEAR(*t->outer_predicted_s, 62'500.0 * 8 * 1514 / 1448 / 100e6 + 0.0325, 1e-9);
    const absl::StatusOr<std::string> text = StepTimeSummary(*record_, run.id, spec);
    ASSERT_TRUE(text.ok());
    EXPECT_THAT(*text, HasSubstr("within 0.10"));
    EXPECT_THAT(*text, Not(HasSubstr("disturbed")));
  }
}

TEST_F(CampaignAnalysisTest, AControlThatMissesItsTruthLeavesNoConclusion) {
  SyntheticWorld w;
  w.extra_nat = {{"control@0.9", 0.05}};
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, w));
  ASSERT_THAT(a.failed_controls, SizeIs(1));
  EXPECT_THAT(a.failed_controls.front(), HasSubstr("control@0.9 has a true eta of 0.9026 and was"));
  EXPECT_THAT(a.Resolvable(), testing::StartsWith("CONTROLS FAILED, no conclusion is drawn: "));
  EXPECT_THAT(CampaignTable(a), testing::StartsWith(a.Resolvable()));
  EXPECT_EQ(Arm(a, "s8").verdict(), Verdict::kNoConclusion);
  EXPECT_EQ(a.families.front().verdict(), Verdict::kNoConclusion);
  EXPECT_EQ(EightStageVerdict(a.families.front()), "no conclusion");
  const nlohmann::json calibration = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_TRUE(calibration["activation"].empty());
  EXPECT_THAT(calibration["controls_failed"], SizeIs(1));
}

TEST_F(CampaignAnalysisTest, ARepetitionWithOtherBitsLeavesNoConclusion) {
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

}  // namespace
}  // namespace longhaul
