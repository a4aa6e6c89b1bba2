// What `list` and the JSON of `run` and `measure` say, against what was written into the record.
#include "experiments/report/listing.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/record/sqlite.h"
#include "experiments/report/result_json.h"
#include "tests/experiments/record/synthetic_record.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ListingTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "listing_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A run of 2 stages and 2 groups, 8 rows of 16 tokens: `steps` of its 10 steps, 0.5 s each on the
  // slower of its workers, are recorded.
  int64_t BeginRun(Record& record, const std::string& arm, int64_t steps, double loss) {
    TomlValue root = *ParseToml(kRunToml, "x.toml");
    Erase(root, "train.tokens");
    for (const char* set : {"train.steps=10", "train.batch_rows=8", "model.context=16",
                            "outer.groups=2", "outer.inner_steps=5", "outer.codec=none"}) {
      EXPECT_TRUE(SetByPath(root, set).ok()) << set;
    }
    const RunSpec spec = *ReadRunSpec(root, TestNames());
    RunRow row;
    row.experiment_id = *record.BeginExperiment({.kind = ExperimentKind::kRun, .name = "one"});
    row.arm = arm;
    row.seed = 7;
    row.stages = row.groups = 2;
    row.train_tokens = TrainTokens(spec);
    row.spec_toml = ToToml(spec);
    const int64_t run = *record.BeginRun(row);
    std::vector<StepRow> rows;
    for (int64_t step = 1; step <= steps; ++step) {
      for (int64_t rank = 0; rank < 4; ++rank) {
        StepRow s{};
        s.step = step;
        s.group_index = rank / 2;
        s.stage = rank % 2;
        if (s.stage == 1) s.loss_nat = loss + static_cast<double>(s.group_index);
        s.tokens = 128;
        s.wall_s = rank == 3 ? 0.5 : 0.25;
        rows.push_back(s);
      }
    }
    EXPECT_TRUE(record.AddSteps(run, rows).ok());
    return run;
  }

  std::string folder_;
};

TEST_F(ListingTest, ARunThatIsBeingWrittenShowsWhatThereIsOfIt) {
  Record writer = *Record::Open(folder_, Record::Mode::kWrite);
  const int64_t run = BeginRun(writer, "base", 4, 5.0);
  // The fifth step has come from one of the four workers.
  StepRow half{};
  half.step = 5;
  half.stage = 1;
  half.loss_nat = 4.0;
  half.wall_s = 9;
  half.tokens = 128;
  ASSERT_TRUE(writer.AddSteps(run, std::span(&half, 1)).ok());
  const std::vector<ListedRecord> records = *ListRecordsBelow(folder_);
  ASSERT_EQ(records.size(), 1u);
  ASSERT_EQ(records[0].error, "");
  const ListedExperiment& e = records[0].experiments.at(0);
  EXPECT_EQ(e.state(), "running");
  const ListedRun& listed = e.runs.at(0);
  EXPECT_EQ(listed.row.status, RunStatus::kRunning);
  EXPECT_EQ(listed.steps_done, 4);
  EXPECT_EQ(listed.steps_planned, 10);
  EXPECT_FALSE(listed.held_out);
  EXPECT_DOUBLE_EQ(*listed.train_loss_nat, 5.5);              // groups at 5 and 6
  EXPECT_DOUBLE_EQ(*listed.tokens_per_s, 4 * 2 * 128 / 2.0);  // 256 tokens in 0.5 s
}

TEST_F(ListingTest, HeldOutLossIsTheLastOneWithTheCodecOff) {
  Record writer = *Record::Open(folder_, Record::Mode::kWrite);
  const int64_t run = BeginRun(writer, "base", 10, 5.0);
  for (const EvaluationRow& e : {EvaluationRow{5, EvalCodec::kOff, 4.9, 0.01, 64},
                                 EvaluationRow{10, EvalCodec::kOff, 4.1, 0.02, 64},
                                 EvaluationRow{10, EvalCodec::kOn, 4.3, 0.03, 64}}) {
    ASSERT_TRUE(writer.AddEvaluation(run, e).ok());
  }
  ASSERT_TRUE(writer.FinishRun(run, RunStatus::kOk, "").ok());
  const ListedRecord record = *ListRecord(writer);
  const ListedRun& listed = record.experiments.at(0).runs.at(0);
  EXPECT_EQ(listed.held_out->loss_nat, 4.1);
  EXPECT_EQ(listed.held_out->standard_error_nat, 0.02);
  EXPECT_EQ(record.experiments[0].state(), "complete");
  const std::string text = ListingText(std::span(&record, 1), folder_);
  for (const char* part : {"base", "10/10", "4.1000 +-0.0200", "512", "2 x 2", "longhaul.sqlite"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(*RunLine(writer, run),
              AllOf(HasSubstr("ok, 10/10 steps, held-out loss 4.1000 +-0.0200 nat"),
                    HasSubstr("512 tokens/s")));
}

TEST_F(ListingTest, ADivergedLossIsNotANumberAndADeadRunDied) {
  int64_t run = 0;
  {
    Record writer = *Record::Open(folder_, Record::Mode::kWrite);
    run = BeginRun(writer, "wild", 3, std::nan(""));
  }
  const std::vector<ListedRecord> records = *ListRecordsBelow(folder_);
  EXPECT_TRUE(std::isnan(*records[0].experiments.at(0).runs.at(0).train_loss_nat));
  EXPECT_EQ(records[0].experiments[0].state(), "incomplete");
  EXPECT_THAT(ListingText(records, folder_), AllOf(HasSubstr("died"), HasSubstr("training nan")));
  const json document = json::parse(ListJson(records));
  EXPECT_TRUE(document["records"][0]["experiments"][0]["runs"][0]["train_loss_nat"].is_null());
  EXPECT_EQ(document["records"][0]["experiments"][0]["runs"][0]["run"], run);
}

TEST_F(ListingTest, ACampaignCountsWhatItsPlanPromised) {
  Record writer = *Record::Open(folder_, Record::Mode::kWrite);
  const int64_t e = WriteSyntheticCampaign(writer, {});
  const EstimateRow q{.arm = "s8",
                      .evaluation = "off",
                      .quantity = "q",
                      .unit = "per crossing",
                      .value = 0.99,
                      .low = 0.98,
                      .high = 0.995,
                      .level = 0.95,
                      .method = "t",
                      .seeds = 3,
                      .note = ""};
  ASSERT_TRUE(writer.SetEstimates(e, std::span(&q, 1)).ok());
  const ListedRecord record = *ListRecord(writer);
  const ListedExperiment& listed = record.experiments.at(0);
  EXPECT_EQ(listed.planned, 3 * 9);  // seeds; 5 budgets, 1 control, 3 arms
  EXPECT_EQ(listed.ended, 27);
  EXPECT_EQ(listed.state(), "complete");
  EXPECT_THAT(ListingText(std::span(&record, 1), folder_),
              AllOf(HasSubstr("complete, 27 of 27 runs ended"),
                    HasSubstr("q of s8, codec off: 0.9900 [0.9800, 0.9950]")));
  const json document = json::parse(CampaignJson(writer, e, absl::OkStatus()));
  EXPECT_EQ(document["schema"], "longhaul.measure/1");
  EXPECT_TRUE(document["error"].is_null());
  EXPECT_EQ(document["runs"].size(), 27u);
  EXPECT_EQ(document["estimates"][0]["low"], 0.98);
}

TEST_F(ListingTest, ACampaignWithARunMissingIsIncomplete) {
  Record writer = *Record::Open(folder_, Record::Mode::kWrite);
  WriteSyntheticCampaign(writer, {});
  ListedRecord record = *ListRecord(writer);
  record.experiments.at(0).ended = 26;
  EXPECT_EQ(record.experiments[0].state(), "incomplete");
}

TEST_F(ListingTest, FoldersWithoutARecordAndMissingOnesSaySo) {
  const absl::Status missing = ListRecordsBelow(folder_).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr(folder_), HasSubstr("no such folder")));
  std::filesystem::create_directories(folder_ + "/a/b");
  const auto none = ListRecordsBelow(folder_);
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(ListingText(*none, folder_), HasSubstr("no record in '" + folder_ + "'"));
  EXPECT_TRUE(json::parse(ListJson(*none))["records"].empty());
}

TEST_F(ListingTest, RecordsBelowAFolderAreListedAndOneOfAnotherVersionSaysWhy) {
  { Record one = *Record::Open(folder_ + "/b", Record::Mode::kWrite); }
  { Record two = *Record::Open(folder_ + "/deep/er", Record::Mode::kWrite); }
  { Record old = *Record::Open(folder_ + "/a", Record::Mode::kWrite); }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/a/" + kRecordFile).c_str(), &raw), SQLITE_OK);
  const SqliteHandle db(raw);
  ASSERT_TRUE(SqliteExecute(raw, "PRAGMA user_version = 99").ok());
  std::filesystem::create_directories(folder_ + "/garbage");
  std::ofstream(folder_ + "/garbage/" + kRecordFile) << std::string(4096, 'x');
  const std::vector<ListedRecord> records = *ListRecordsBelow(folder_);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].folder, folder_ + "/a");
  EXPECT_THAT(records[0].error, HasSubstr("99"));
  EXPECT_EQ(records[1].error, "");
  EXPECT_EQ(records[2].folder, folder_ + "/deep/er");
  EXPECT_NE(records[3].error, "");
  EXPECT_EQ(json::parse(ListJson(records))["records"][0]["error"], records[0].error);
}

TEST_F(ListingTest, TheDocumentOfARunHasItsRowsAndParsesWhateverItsNames) {
  Record writer = *Record::Open(folder_, Record::Mode::kWrite);
  const int64_t run = BeginRun(writer, "bad \xff byte", 10, 5.0);
  ASSERT_TRUE(writer.FinishRun(run, RunStatus::kFailed, "rank 1: gone").ok());
  const std::string text = RunJson(writer, run, absl::UnavailableError("rank 1: gone"));
  const json document = json::parse(text);
  EXPECT_EQ(document["schema"], "longhaul.run/1");
  EXPECT_EQ(document["error"], "rank 1: gone");
  EXPECT_EQ(document["status"], "failed");
  EXPECT_EQ(document["steps_done"], 10);
  EXPECT_EQ(document["step_time"]["steady_steps"], 9);  // all but the first tenth
  EXPECT_DOUBLE_EQ(double(document["step_time"]["measured_s"]["value"]), 0.3125);
  EXPECT_EQ(document["step_time"]["measured_s"]["low"], 0.3125);
  EXPECT_TRUE(document["crossings"].empty());
  const json nothing = json::parse(ErrorJson("longhaul.run/1", absl::NotFoundError("no file")));
  EXPECT_EQ(nothing["error"], "no file");
}

}  // namespace
}  // namespace longhaul
