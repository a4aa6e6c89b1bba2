// Losses of which there is no difference: of other texts, of other files; and bits of other builds.
#include "experiments/estimates/comparability.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/report/report.h"
#include "experiments/report/report_data.h"
#include "experiments/report/result_json.h"
#include "tests/experiments/estimates/analysed_campaign.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr char kPair[] = "stages = 2\nforward = \"int4-b64-h64\"\nbackward = \"int8-b64\"\n";

std::string OneArm(const std::string& name, const std::string& lines) {
  return "[[arm]]\nname = \"" + name + "\"\n" + kPair + lines + "\n";
}

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Comparability : public AnalysedCampaign {
 protected:
  std::string Page() {
    ReportOptions options;
    options.python = "";
    options.out = folder_ + "/page";
    const auto page = WriteReport(*record_, options);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? TextOf(*page) : "";
  }
  // Another run of an arm and seed takes the place of the one before, with its losses.
  void Again(const RunRow& run, double loss) {
    const int64_t id = *record_->BeginRun(run);
    ASSERT_TRUE(record_->AddEvaluation(id, {1, EvalCodec::kOff, loss, 0.004, 262144}).ok());
    ASSERT_TRUE(record_->AddEvaluation(id, {1, EvalCodec::kOn, loss, 0.004, 262144}).ok());
    ASSERT_TRUE(record_->FinishRun(id, RunStatus::kOk, "").ok());
  }
};

TEST_F(Comparability, AnArmWithAnotherHeldOutTextHasNoEtaAndSaysWhy) {
  SyntheticWorld world;
  world.more_arms = OneArm("rows", "eval.rows = 1024") +
                    OneArm("source", "data.source = \"text:/x\"") +
                    OneArm("eval", "data.eval = \"text:/y\"") +
                    OneArm("vocab", "model.vocab = 512") + OneArm("rate", "train.lr = 1e-3");
  const int64_t e = WriteSyntheticCampaign(*record_, world);
  const CampaignAnalysis a = Analysed(e);
  const std::string why = "losses on different texts have no difference: ";
  for (const auto& [name, change] : {std::pair("rows", "eval.rows 2048 > 1024"),
                                     {"source", "data.source \"headers\" > \"text:/x\""},
                                     {"eval", "data.eval - > \"text:/y\""},
                                     {"vocab", "model.vocab 256 > 512"}}) {
    EXPECT_FALSE(Arm(a, name).off.has_value()) << name;
    EXPECT_FALSE(Arm(a, name).on.has_value()) << name;
    EXPECT_EQ(Arm(a, name).note, why + change);
  }
  EXPECT_TRUE(Arm(a, "rate").off.has_value());  // other training, the same text
  EXPECT_TRUE(Arm(a, "s4").off->q.has_value());
  // The table, rows and columns of files, the page and the calibration.
  EXPECT_THAT(CampaignTable(a), testing::ContainsRegex("rows .* - +- +- +" + why));
  for (const EstimateRow& row : ToEstimates(a)) {
    if (row.arm != "rows" || row.quantity != "eta") continue;
    EXPECT_FALSE(row.value.has_value());
    EXPECT_EQ(row.note, why + "eval.rows 2048 > 1024");
  }
  int lines = 0;
  for (const auto& row : ArmsCsv(a)) {
    if (row.front() != "rows") continue;
    ++lines;
    EXPECT_EQ(row.back(), why + "eval.rows 2048 > 1024");
  }
  EXPECT_GT(lines, 0);
  const nlohmann::json calibration = nlohmann::json::parse(CalibrationJson(a));
  for (const auto& arm : calibration["arms"]) {
    EXPECT_EQ(arm.contains("off"), arm["arm"] != "rows" && arm["arm"] != "source" &&
                                       arm["arm"] != "eval" && arm["arm"] != "vocab")
        << arm;
    if (arm["arm"] != "rows") continue;
    EXPECT_EQ(arm["note"], why + "eval.rows 2048 > 1024");
  }
  EXPECT_THAT(Page(), HasSubstr(why + "eval.rows 2048 &gt; 1024"));
  ASSERT_TRUE(record_->SetEstimates(e, ToEstimates(a)).ok());
  EXPECT_THAT(CampaignJson(*record_, e, absl::OkStatus()), HasSubstr(why));
}

TEST_F(Comparability, ThatIsSaidBeforeAnythingIsTrained) {
  const std::string campaign =
      "[campaign]\nname = \"c\"\nquestion = \"?\"\nseeds = [1, 2]\nd0_tokens = 400_000\n"
      "budgets = [0.5, 1.0]\n" +
      OneArm("same", "train.lr = 1e-3") + OneArm("rows", "eval.rows = 1024") + kArmsToml +
      "rows = 2048\n";
  const auto read = ReadCampaign(*ParseToml(campaign, "c.toml"), TestNames());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(OtherTextAdvice(*read),
              ElementsAre(AllOf(HasSubstr("arm 'rows' will have no eta"),
                                HasSubstr("have no difference: eval.rows 2048 > 1024"))));
}

// What was held out is told by its hash, wherever it lies.
TEST_F(Comparability, OtherTrainingDataWithTheSameHeldOutTextHasAnEta) {
  const auto arm = [](const std::string& data, const std::string& eval_hash) {
    ArmResult result{};
    Outcome outcome{};
    outcome.run.spec_toml = "\n[data]\n" + data;
    if (!eval_hash.empty()) outcome.run.facts["eval_hash"] = eval_hash;
    result.outcomes.push_back(outcome);
    return result;
  };
  const std::string a = "source = \"text:/a\"\n", b = "source = \"text:/b\"\n";
  const std::string eval = "eval = \"text:/e\"\n", other = "eval = \"text:/f\"\n";
  EXPECT_EQ(OtherText(arm(a, ""), arm(a, "")), "");
  EXPECT_EQ(OtherText(arm(a, ""), arm(b, "")), "data.source \"text:/a\" > \"text:/b\"");
  EXPECT_EQ(OtherText(arm(a + eval, ""), arm(b + eval, "")), "");
  EXPECT_EQ(OtherText(arm(a + eval, ""), arm(a + other, "")),
            "data.eval \"text:/e\" > \"text:/f\"");
  EXPECT_EQ(OtherText(arm(a + eval, "1"), arm(b + other, "1")), "");
  EXPECT_EQ(OtherText(arm(a, "1"), arm(b, "2")), "data.source \"text:/a\" > \"text:/b\"");
}

TEST_F(Comparability, RunsOfOtherFilesMakeNoFigureOfACampaign) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const CampaignAnalysis before = Analysed(e);
  ASSERT_TRUE(Arm(before, "s4").off.has_value());
  const std::string one(64, 'a'), other(64, 'b');
  const std::vector<RunRow> runs = *record_->Runs(e);
  for (const RunRow& run : runs) {
    const bool later = run.seed == 3;
    ASSERT_TRUE(record_->AddFacts(run.id, {{"data_hash", later ? other : one}}).ok());
  }
  const CampaignAnalysis a = Analysed(e);
  const std::string mixed =
      "data_hash (\"headers\"): SHA-256 aaaaaaaaaaaaaaaa in 18 runs, SHA-256 bbbbbbbbbbbbbbbb in 9 "
      "runs";
  EXPECT_EQ(a.mixed_files, mixed);
  EXPECT_FALSE(a.curve.has_value());
  for (const ArmResult& arm : a.arms) EXPECT_FALSE(arm.off.has_value()) << arm.arm;
  EXPECT_THAT(nlohmann::json::parse(CalibrationJson(a))["activation"], SizeIs(0));
  EXPECT_THAT(Page(), HasSubstr("runs of other files are not mixed"));
  const auto table = AnalyseCampaign(*record_, e);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(table.status().message()), HasSubstr(mixed));
}

// The page of a grid whose links changed between repeats: no cell, and why.
TEST_F(Comparability, AMixedGridCostsItsFiguresAndNotThePage) {
  const int64_t e = *record_->BeginExperiment(
      {.kind = ExperimentKind::kRun, .name = "grid", .plan_text = "[plan]\n"});
  for (const char digit : {'a', 'b'}) {
    RunRow run;
    run.experiment_id = e;
    run.arm = "cell";
    run.seed = digit;
    run.spec_toml = kRunToml;
    run.facts[kNamedFilesFact] = "net.profile " + std::string(64, digit) + " 9 1 /links.toml\n";
    ASSERT_TRUE(record_->FinishRun(*record_->BeginRun(run), RunStatus::kOk, "").ok());
  }
  EXPECT_THAT(Page(),
              AllOf(HasSubstr("runs of other files make no figure together"),
                    HasSubstr("net.profile (/links.toml): SHA-256 aaaaaaaaaaaaaaaa in 1 run, "
                              "SHA-256 bbbbbbbbbbbbbbbb in 1 run")));
}

TEST_F(Comparability, OneBuildAndMachineIsNotSpokenOf) {
  const CampaignAnalysis a = Analysed(WriteSyntheticCampaign(*record_, {}));
  EXPECT_THAT(a.builds, SizeIs(0));
  EXPECT_EQ(a.git_revision, "0123456789ab");
  EXPECT_THAT(CampaignTable(a), Not(HasSubstr("not of one build")));
  EXPECT_FALSE(nlohmann::json::parse(CalibrationJson(a)).contains("builds"));
}

TEST_F(Comparability, AnArmOfAnotherBuildThanItsReferenceHasNoQ) {
  const int64_t e = WriteSyntheticCampaign(*record_, {.with_steps = false});
  const CampaignAnalysis before = Analysed(e);
  const Outcome& old = Arm(before, "s4").outcomes[1];
  RunRow run = old.run;
  run.git_revision = "fedcba987654";
  run.host = "other";
  run.isa = "avx512";
  Again(run, *old.loss_off);
  const CampaignAnalysis a = Analysed(e);
  EXPECT_EQ(Arm(a, "s4").other_build,
            "seed 2: revision fedcba987654 against 0123456789ab, instruction set of codecs avx512 "
            "against avx2");
  EXPECT_EQ(Arm(a, "s4").verdict(), Verdict::kNoQ);
  ASSERT_TRUE(Arm(a, "s4").off.has_value());
  EXPECT_FALSE(Arm(a, "s4").off->q.has_value());
  EXPECT_TRUE(Arm(a, "s8").off->q.has_value());
  EXPECT_THAT(
      a.builds,
      ElementsAre("2 of revision: 0123456789ab (reference@0.5, reference@0.65, reference@0.8, "
                  "reference@1, reference@1.1, control@0.9, s2, s4, s8); fedcba987654 (s4)",
                  HasSubstr("2 of instruction set of codecs"),
                  HasSubstr("2 of host: box (reference@0.5")));
  EXPECT_THAT(CampaignTable(a), AllOf(HasSubstr("another build, seed 2: revision fedcba987654"),
                                      HasSubstr("not of one build and machine: 2 of host: box (")));
  const auto json = nlohmann::json::parse(CalibrationJson(a));
  EXPECT_EQ(json["commit"], "0123456789ab, fedcba987654");
  EXPECT_EQ(json["builds"].size(), 3u);
  EXPECT_THAT(std::string(json["builds"][0]), HasSubstr("fedcba987654 (s4)"));
  EXPECT_THAT(Page(), AllOf(HasSubstr("Not of one build and machine: 2 of host"),
                            HasSubstr("another build, seed 2: revision fedcba987654")));
}

// Another host of the same build and path through the CPU has the same bits.
TEST_F(Comparability, AnotherHostAloneIsToldAndCostsNoQ) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const CampaignAnalysis before = Analysed(e);
  const Outcome& old = Arm(before, "s4").outcomes[1];
  RunRow run = old.run;
  run.host = "other";
  Again(run, *old.loss_off);
  const CampaignAnalysis a = Analysed(e);
  EXPECT_EQ(Arm(a, "s4").other_build, "");
  EXPECT_TRUE(Arm(a, "s4").off->q.has_value());
  ASSERT_THAT(a.builds, SizeIs(1));
  EXPECT_THAT(a.builds[0], HasSubstr("; other (s4)"));
}

// Bits of other builds were never claimed to agree: that is no failed control.
TEST_F(Comparability, AnABetweenBuildsIsNotCompared) {
  SyntheticWorld world;
  world.control_budgets = "0.9, 1.0";
  world.with_steps = true;
  const int64_t e = WriteSyntheticCampaign(*record_, world);
  const CampaignAnalysis before = Analysed(e);
  const Outcome& old = Arm(before, "control@1").outcomes[1];
  RunRow run = old.run;
  run.facts["cpu_path_torch"] = "AVX2";
  Again(run, *old.loss_off + 1e-9);  // what one says and the other does not is no difference
  EXPECT_FALSE(Analysed(e).failed_controls.empty());
  run.torch_version = "9.9";
  Again(run, *old.loss_off + 1e-9);
  const CampaignAnalysis a = Analysed(e);
  EXPECT_TRUE(a.failed_controls.empty());
  ASSERT_THAT(a.identities, SizeIs(1));
  EXPECT_EQ(a.identities[0].seeds, 2);
  EXPECT_EQ(a.identities[0].other_builds, 1);
  EXPECT_THAT(a.identities[0].Text(),
              AllOf(HasSubstr("bit-identical in 2 of 2 seeds"),
                    HasSubstr("; 1 seed not compared: of another build or CPU path")));
}

TEST_F(Comparability, ThePageSaysWhatEachArmWasMadeOf) {
  const int64_t e = WriteSyntheticCampaign(*record_, {});
  const std::vector<RunRow> runs = *record_->Runs(e);
  for (const RunRow& run : runs) {
    ASSERT_TRUE(record_
                    ->AddFacts(run.id, {{"data_hash", std::string(64, 'd')},
                                        {"eval_hash", std::string(64, 'e')},
                                        {"init_hash", std::string(64, 'f')},
                                        {"cpu_path_torch", "AVX512"},
                                        {"train_tokens_available", "800000"}})
                    .ok());
  }
  const int64_t tokens = Arm(Analysed(e), "s4").outcomes[0].run.train_tokens;
  ASSERT_NEAR(static_cast<double>(tokens), 400'000, 1024);  // half an epoch
  EXPECT_THAT(Page(), AllOf(HasSubstr("What each arm was made of"), HasSubstr("dddddddddddddddd<"),
                            HasSubstr("eeeeeeeeeeeeeeee<"), HasSubstr("ffffffffffffffff<"),
                            HasSubstr("avx2, LibTorch AVX512"), HasSubstr(">0.499<"),
                            HasSubstr("0123456789ab"), HasSubstr("box, a CPU")));
}

}  // namespace
}  // namespace longhaul
