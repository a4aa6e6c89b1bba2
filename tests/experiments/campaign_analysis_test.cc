#include "experiments/estimates/campaign_analysis.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/estimates/step_time_summary.h"
#include "tests/experiments/specs.h"
#include "tests/experiments/synthetic_record.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class CampaignAnalysisTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "analysis_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    record_.emplace(*Record::Open(folder_, Record::Mode::kWrite));
  }
  void TearDown() override {
    record_.reset();
    std::filesystem::remove_all(folder_);
  }
  CampaignAnalysis Analysed(int64_t experiment) {
    const std::vector<ExperimentRow> experiments = *record_->Experiments();
    for (const ExperimentRow& e : experiments) {
      if (e.id == experiment) return *Analyse(*record_, e);
    }
    ADD_FAILURE();
    return {};
  }
  static const ArmResult& Arm(const CampaignAnalysis& a, const std::string& name) {
    for (const ArmResult& arm : a.arms) {
      if (arm.arm == name) return arm;
    }
    ADD_FAILURE() << name;
    return a.arms.front();
  }

  std::string folder_;
  std::optional<Record> record_;
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
  EXPECT_EQ(Arm(a, "s4").note, "diverged or failed 1 of 3");
  EXPECT_TRUE(Arm(a, "s8").off.has_value());
  EXPECT_FALSE(a.families[0].off.has_value());
  EXPECT_THAT(CampaignTable(a), HasSubstr("diverged or failed 1 of 3"));
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

TEST_F(CampaignAnalysisTest, ForecastUsesAPilotOnlyWhenThereIsOne) {
  TomlValue root = *ParseToml(R"([campaign]
name = "next"
question = "?"
seeds = [1, 2, 3]
d0_tokens = 100000
budgets = [0.5, 1.0]
[[arm]]
name = "s8"
stages = 8
forward = "int8-b64"
backward = "int8-b64"
)",
                              "next.toml");
  Merge(root, *ParseToml(kRunToml, "next.toml"));
  Erase(root, "seed");
  Erase(root, "train.tokens");
  const CampaignSpec campaign = *ReadCampaign(root, TestNames());
  const ResolutionForecast before = *ForecastFor(campaign, &*record_);
  EXPECT_THAT(before.text, HasSubstr("assumed, no pilot"));
  EXPECT_THAT(before.text, HasSubstr("smoke campaign: 3 seeds"));
  WriteSyntheticCampaign(*record_, {.noise_nat = 1e-4});
  const ResolutionForecast after = *ForecastFor(campaign, &*record_);
  EXPECT_THAT(after.text, HasSubstr("pilot 'smoke'"));
  EXPECT_TRUE(after.primary_resolvable);
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

}  // namespace
}  // namespace longhaul
