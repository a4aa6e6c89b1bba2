#include "experiments/record/record.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class RecordTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "record_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Record OpenToWrite() {
    absl::StatusOr<Record> record = Record::Open(folder_, Record::Mode::kWrite);
    EXPECT_TRUE(record.ok()) << record.status();
    return *std::move(record);
  }
  static int64_t Campaign(Record& record, const std::string& plan = "plan") {
    return *record.BeginExperiment({.kind = ExperimentKind::kCampaign,
                                    .name = "c",
                                    .question = "?",
                                    .plan_text = plan,
                                    .d0_tokens = 400'000});
  }
  static RunRow Run(int64_t experiment, const std::string& arm, int64_t seed) {
    RunRow run;
    run.experiment_id = experiment;
    run.arm = arm;
    run.role = Role::kArm;
    run.seed = seed;
    run.host = "here";
    run.facts = {{"parameters", "436352"}};
    return run;
  }
  static StepRow Step(int64_t step, double loss) {
    return {.step = step,
            .group_index = 0,
            .stage = 1,
            .loss_nat = loss,
            .tokens = 2048,
            .wall_s = 0.5,
            .forward_s = 0.1,
            .backward_s = 0.2,
            .optimizer_s = 0.05,
            .wait_s = 0.1,
            .outer_s = 0,
            .parameter_hash = 0xfedcba9876543210u};
  }

  static LinkRow SlowLink() {
    return {.phase = LinkPhase::kBefore,
            .src_node = 0,
            .dst_node = 1,
            .nominal_rate_bit_per_s = 200e6,
            .nominal_rtt_s = 0.06,
            .rtt_median_s = 0.0601,
            .ok = false,
            .why = "slow"};
  }
  static CrossingRow Crossing() {
    return {.src_rank = 0,
            .dst_rank = 1,
            .direction = Direction::kForward,
            .codec = "int8-b64",
            .tensors = 8,
            .elements = 1024,
            .predicted_wire_bytes = 1200,
            .payload_bytes = 1100,
            .message_bytes = 1150,
            .kernel_tx_bytes = 1201,
            .nmse_mean = 1e-3,
            .payload_hash = 42};
  }

  std::string folder_;
};

TEST_F(RecordTest, RowsComeBackAsTheyWent) {
  Record record = OpenToWrite();
  const int64_t experiment = Campaign(record);
  const int64_t run = *record.BeginRun(Run(experiment, "s2", 7));
  StepRow not_hashed = Step(1, 5.5);
  not_hashed.parameter_hash.reset();
  ASSERT_TRUE(record.Add(run, std::vector{not_hashed, Step(2, 5.25)}).ok());
  ASSERT_TRUE(record.Add(run, std::vector{SlowLink()}).ok());
  ASSERT_TRUE(record.Add(run, std::vector{Crossing()}).ok());
  ASSERT_TRUE(record
                  .Add(run, std::vector{EvaluationRow{.step = 2,
                                                      .codec = EvalCodec::kOff,
                                                      .loss_nat = 2.5,
                                                      .standard_error_nat = 0.01,
                                                      .tokens = 8192}})
                  .ok());
  ASSERT_TRUE(record.AddFacts(run, {{"transport", "loopback"}}).ok());
  ASSERT_TRUE(record.FinishRun(run, RunStatus::kOk, "").ok());

  const absl::StatusOr<Record> reader = Record::Open(folder_, Record::Mode::kRead);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<RunRow> runs = *reader->Runs(experiment);
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].arm, "s2");
  EXPECT_EQ(runs[0].status, RunStatus::kOk);
  EXPECT_NE(runs[0].finished_utc, "");
  EXPECT_THAT(runs[0].facts,
              UnorderedElementsAre(Pair(kAttemptFact, "1"), Pair("parameters", "436352"),
                                   Pair("transport", "loopback")));
  const std::vector<StepRow> steps = *reader->RowsOf<StepRow>(run);
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[1].loss_nat, 5.25);
  EXPECT_EQ(steps[0].parameter_hash, std::nullopt);
  EXPECT_EQ(steps[1].parameter_hash, 0xfedcba9876543210u);
  const std::vector<LinkRow> links = *reader->RowsOf<LinkRow>(run);
  ASSERT_THAT(links, SizeIs(1));
  EXPECT_EQ(links[0].rtt_median_s, 0.0601);
  EXPECT_EQ(links[0].goodput_bit_per_s, std::nullopt);
  EXPECT_FALSE(links[0].ok);
  const std::vector<CrossingRow> crossings = *reader->RowsOf<CrossingRow>(run);
  ASSERT_THAT(crossings, SizeIs(1));
  EXPECT_EQ(crossings[0].kernel_tx_bytes, 1201);
  EXPECT_EQ(crossings[0].kernel_rx_bytes, std::nullopt);
  EXPECT_EQ(crossings[0].payload_hash, 42u);
  EXPECT_EQ((*reader->RowsOf<EvaluationRow>(run))[0].codec, EvalCodec::kOff);
  EXPECT_THAT((*reader->Experiments())[0].plan_sha256, SizeIs(64));
}

TEST_F(RecordTest, NanLossStaysVisible) {
  Record record = OpenToWrite();
  const int64_t run = *record.BeginRun(Run(Campaign(record), "s2", 1));
  const std::vector<StepRow> steps = {Step(1, std::nan("")),
                                      Step(2, std::numeric_limits<double>::infinity())};
  ASSERT_TRUE(record.Add(run, steps).ok());
  const std::vector<StepRow> back = *record.RowsOf<StepRow>(run);
  ASSERT_TRUE(back[0].loss_nat.has_value());
  EXPECT_TRUE(std::isnan(*back[0].loss_nat));
  EXPECT_TRUE(std::isinf(*back[1].loss_nat));
}

TEST_F(RecordTest, SamePlanGoesOnAndAnotherPlanIsAnotherExperiment) {
  int64_t first;
  {
    Record record = OpenToWrite();
    first = Campaign(record, "a");
  }
  Record record = OpenToWrite();
  EXPECT_EQ(Campaign(record, "a"), first);
  EXPECT_NE(Campaign(record, "b"), first);
}

TEST_F(RecordTest, FinishedNamesWhatNeedsNoFurtherRun) {
  Record record = OpenToWrite();
  const int64_t e = Campaign(record);
  ASSERT_TRUE(record.FinishRun(*record.BeginRun(Run(e, "a", 1)), RunStatus::kOk, "").ok());
  ASSERT_TRUE(record.FinishRun(*record.BeginRun(Run(e, "a", 2)), RunStatus::kFailed, "x").ok());
  ASSERT_TRUE(record.FinishRun(*record.BeginRun(Run(e, "b", 1)), RunStatus::kDiverged, "n").ok());
  ASSERT_TRUE(record.BeginRun(Run(e, "b", 2)).ok());
  EXPECT_THAT(*record.Finished(e), UnorderedElementsAre(Pair("a", 1), Pair("b", 1)));
}

TEST_F(RecordTest, StatusIsHonestAboutKilledWriters) {
  Record record = OpenToWrite();
  const int64_t experiment = Campaign(record);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<Record> mine = Record::Open(folder_, Record::Mode::kWrite);
    const int64_t run = mine.ok() ? mine->BeginRun(Run(experiment, "s2", 1)).value_or(-1) : -1;
    const std::vector<StepRow> steps = {Step(1, 5.0)};
    if (run < 0 || !mine->Add(run, steps).ok()) _exit(1);
    if (write(pipes[1], &run, sizeof run) != sizeof run) _exit(2);
    while (true) pause();
  }
  int64_t run = 0;
  ASSERT_EQ(read(pipes[0], &run, sizeof run), static_cast<ssize_t>(sizeof run));
  EXPECT_EQ((*record.Runs(experiment))[0].status, RunStatus::kRunning);
  EXPECT_EQ(*record.SettleDeadRuns(), 0);
  EXPECT_EQ(record.ResumeRun(run).code(), absl::StatusCode::kFailedPrecondition);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const absl::StatusOr<Record> reader = Record::Open(folder_, Record::Mode::kRead);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader->Runs(experiment))[0].status, RunStatus::kDied);
  EXPECT_THAT((*reader->Runs(experiment))[0].reason, HasSubstr(std::to_string(child)));
  EXPECT_THAT(*reader->RowsOf<StepRow>(run), SizeIs(1));
  EXPECT_EQ(*record.SettleDeadRuns(), 1);
  EXPECT_EQ((*record.Runs(experiment))[0].status, RunStatus::kInterrupted);
  ASSERT_TRUE(record.ResumeRun(run).ok());
  EXPECT_EQ((*record.Runs(experiment))[0].status, RunStatus::kRunning);
  EXPECT_TRUE(record.FinishRun(run, RunStatus::kOk, "").ok());
  EXPECT_FALSE(record.ResumeRun(run).ok());
  close(pipes[0]);
  close(pipes[1]);
}

TEST_F(RecordTest, ManyProcessesAppendAtOnce) {
  constexpr int kWriters = 4, kRuns = 10;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    absl::StatusOr<Record> mine = Record::Open(folder_, Record::Mode::kWrite);
    if (!mine.ok()) _exit(1);
    const int64_t experiment = Campaign(*mine);
    for (int r = 0; r < kRuns; ++r) {
      const absl::StatusOr<int64_t> run = mine->BeginRun(Run(experiment, "a", w * kRuns + r));
      const std::vector<StepRow> steps = {Step(1, 5.0), Step(2, 4.0)};
      if (!run.ok() || !mine->Add(*run, steps).ok()) _exit(2);
      if (!mine->FinishRun(*run, RunStatus::kOk, "").ok()) _exit(3);
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Record record = OpenToWrite();
  EXPECT_THAT(*record.Experiments(), SizeIs(1));
  EXPECT_THAT(*record.Finished(1), SizeIs(kWriters * kRuns));
}

TEST_F(RecordTest, FinishedRunCannotFinishAgain) {
  Record record = OpenToWrite();
  const int64_t run = *record.BeginRun(Run(Campaign(record), "a", 1));
  EXPECT_FALSE(record.FinishRun(run, RunStatus::kRunning, "").ok());
  EXPECT_TRUE(record.FinishRun(run, RunStatus::kInvalid, "link").ok());
  EXPECT_EQ(record.FinishRun(run, RunStatus::kOk, "").code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(RecordTest, DiskFullIsOneClearStatus) {
  std::filesystem::create_directories(folder_);
  Record record = OpenToWrite();
  const int64_t run = *record.BeginRun(Run(Campaign(record), "a", 1));
  // The page limit stands in for a full disk: SQLite takes the same path for both.
  ASSERT_TRUE(record.Rows("PRAGMA max_page_count = 1").ok());
  std::vector<StepRow> steps;
  for (int64_t i = 1; i <= 20'000; ++i) steps.push_back(Step(i, 5.0));
  const absl::Status status = record.Add(run, steps);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("longhaul.sqlite"));
  EXPECT_THAT(*record.RowsOf<StepRow>(run), SizeIs(0));  // all or nothing
}

TEST_F(RecordTest, AttemptsAreCountedForEachArmAndSeed) {
  Record record = OpenToWrite();
  const int64_t e = Campaign(record);
  const auto attempt = [&](const std::string& arm, int64_t seed) {
    const int64_t run = *record.BeginRun(Run(e, arm, seed));
    EXPECT_TRUE(record.FinishRun(run, RunStatus::kInterrupted, "x").ok());
    return record.Run(run)->facts.at(kAttemptFact);
  };
  EXPECT_EQ(attempt("a", 1), "1");
  EXPECT_EQ(attempt("a", 2), "1");
  EXPECT_EQ(attempt("a", 1), "2");
  EXPECT_EQ(attempt("b", 1), "1");
}

TEST_F(RecordTest, FactsOfAnExperimentStayThoseOfItsFirstBegin) {
  Record record = OpenToWrite();
  ExperimentRow e{.kind = ExperimentKind::kCampaign, .name = "c", .plan_text = "plan"};
  e.facts = {{kForecastFact, "n = 3"}, {kAcceptedUnresolvedFact, "true"}};
  const int64_t id = *record.BeginExperiment(e);
  e.facts = {{kForecastFact, "n = 3, with a pilot"}, {kAcceptedUnresolvedFact, "false"}};
  EXPECT_EQ(*record.BeginExperiment(e), id);
  EXPECT_THAT((*record.Experiments())[0].facts,
              UnorderedElementsAre(Pair("forecast", "n = 3"), Pair("accepted_unresolved", "true")));
}

TEST_F(RecordTest, ErrorsOfAWindowAreThoseOfItsMostSamples) {
  Record record = OpenToWrite();
  const int64_t run = *record.BeginRun(Run(Campaign(record), "s4", 1));
  const auto add = [&](int64_t percent, int64_t samples, double mean) {
    const CrossingErrorRow row{.src_rank = 1,
                               .dst_rank = 2,
                               .percent = percent,
                               .first_step = 5,
                               .last_step = 9,
                               .samples = samples,
                               .nmse_mean = mean,
                               .nmse_p95 = 2 * mean};
    EXPECT_TRUE(record.Add<CrossingErrorRow>(run, {&row, 1}).ok());
  };
  add(10, 8, 0.5);
  add(10, 3, 0.25);  // a resumed run's rest of the window
  add(50, 3, 0.125);
  add(50, 8, 0.0625);
  const auto rows = *record.RowsOf<CrossingErrorRow>(run);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].percent, 10);
  EXPECT_EQ(rows[0].samples, 8);
  EXPECT_EQ(rows[0].nmse_mean, 0.5);
  EXPECT_EQ(rows[1].samples, 8);
  EXPECT_EQ(rows[1].nmse_p95, 0.125);
}

TEST_F(RecordTest, RecordWithoutTheLaterTablesIsReadAndGoesOn) {
  {
    Record record = OpenToWrite();
    Campaign(record);
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/longhaul.sqlite").c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(raw, "DROP TABLE experiment_facts; DROP TABLE crossing_errors", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(raw);
  {
    const auto reader = Record::Open(folder_, Record::Mode::kRead);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE((*reader->Experiments())[0].facts.empty());
    EXPECT_TRUE(reader->RowsOf<CrossingErrorRow>(1)->empty());
  }
  Record record = OpenToWrite();
  ASSERT_TRUE(record
                  .BeginExperiment({.kind = ExperimentKind::kCampaign,
                                    .name = "c",
                                    .plan_text = "plan",
                                    .facts = {{kForecastFact, "n = 3"}}})
                  .ok());
  EXPECT_THAT((*record.Experiments())[0].facts, testing::ElementsAre(Pair("forecast", "n = 3")));
}

TEST_F(RecordTest, NewerSchemaIsRefused) {
  { OpenToWrite(); }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/longhaul.sqlite").c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  for (const Record::Mode mode : {Record::Mode::kRead, Record::Mode::kWrite}) {
    EXPECT_EQ(Record::Open(folder_, mode).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Who edits the plan of a record changes what its estimates are of.
TEST_F(RecordTest, APlanThatIsNotTheOneThatWasHashedIsRefused) {
  {
    Record record = OpenToWrite();
    Campaign(record, "the plan");
    ASSERT_TRUE(record.Experiments().ok());
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/" + kRecordFile).c_str(), &db), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(db, "UPDATE experiments SET plan_text = 'another'", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(db);
  const auto read = Record::Open(folder_, Record::Mode::kRead)->Experiments();
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("the plan of experiment 1 ('c') has SHA-256 "));
}

// Estimates are what the plan asked for: one that was edited in the file asks for something else.
TEST_F(RecordTest, APlanThatWasChangedInTheFileIsNotRead) {
  {
    Record record = OpenToWrite();
    Campaign(record);
    EXPECT_TRUE(record.Experiments().ok());
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/longhaul.sqlite").c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(raw, "UPDATE experiments SET plan_text = plan_text || ' '", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(raw);
  const absl::Status read = Record::Open(folder_, Record::Mode::kRead)->Experiments().status();
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr("the plan was changed or is damaged"));
}

}  // namespace
}  // namespace longhaul
