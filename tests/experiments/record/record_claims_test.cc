// Who trains a run, and how it ends: claims, take-overs, a full disk.
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "tests/experiments/record/instant_step.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Claims : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "claims_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Record Open() { return *Record::Open(folder_, Record::Mode::kWrite); }
  static RunRow Planned(Record& record, const std::string& arm, int64_t seed) {
    RunRow row;
    row.experiment_id =
        *record.BeginExperiment({.kind = ExperimentKind::kCampaign, .name = "c", .plan_text = "p"});
    row.arm = arm;
    row.seed = seed;
    row.host = "here";
    return row;
  }
  std::string folder_;
};

TEST_F(Claims, ALivingProcessKeepsItsRunFromOthersAndIsNamed) {
  Record mine = Open(), other = Open();
  const Claim first = *mine.ClaimRun(Planned(mine, "a", 1));
  EXPECT_EQ(first.outcome, Claim::Outcome::kMine);
  const Claim second = *other.ClaimRun(Planned(other, "a", 1));
  EXPECT_EQ(second.outcome, Claim::Outcome::kElsewhere);
  EXPECT_EQ(second.run, first.run);
  EXPECT_THAT(second.who, HasSubstr("process " + std::to_string(getpid()) + " on here"));
  EXPECT_EQ(other.ClaimRun(Planned(other, "a", 2))->outcome, Claim::Outcome::kMine);
  EXPECT_EQ(other.ClaimRun(Planned(other, "b", 1))->outcome, Claim::Outcome::kMine);
}

TEST_F(Claims, OnlyWhatEndedOkOrDivergedIsFinished) {
  Record record = Open();
  int64_t seed = 0;
  for (const auto& [status, outcome] : {std::pair{RunStatus::kOk, Claim::Outcome::kFinished},
                                        {RunStatus::kDiverged, Claim::Outcome::kFinished},
                                        {RunStatus::kPartial, Claim::Outcome::kMine},
                                        {RunStatus::kFailed, Claim::Outcome::kMine},
                                        {RunStatus::kInvalid, Claim::Outcome::kMine},
                                        {RunStatus::kInterrupted, Claim::Outcome::kMine}}) {
    const RunRow row = Planned(record, "a", ++seed);
    ASSERT_TRUE(record.FinishRun(record.ClaimRun(row)->run, status, "").ok());
    EXPECT_EQ(record.LookUpClaim(row.experiment_id, "a", seed)->outcome, outcome)
        << ToString(status);
    EXPECT_EQ(record.ClaimRun(row)->outcome, outcome) << ToString(status);
  }
}

TEST_F(Claims, ADeadProcessHoldsNothing) {
  {
    ASSERT_EQ(Open().ClaimRun({.experiment_id = 0}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }  // no such experiment: nothing is claimed
  const pid_t child = fork();
  if (child == 0) {
    Record its = Open();
    _exit(its.ClaimRun(Planned(its, "a", 1))->outcome == Claim::Outcome::kMine ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  Record record = Open();
  EXPECT_EQ(record.ClaimRun(Planned(record, "a", 1))->outcome, Claim::Outcome::kMine);
}

TEST_F(Claims, OfManyThatAskAtOnceOneGetsEachRun) {
  constexpr int kProcesses = 4, kRuns = 12;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    Record record = Open();
    for (int r = 0; r < kRuns; ++r) {
      const absl::StatusOr<Claim> claim = record.ClaimRun(Planned(record, "a", r));
      if (!claim.ok()) _exit(1);
      if (claim->outcome != Claim::Outcome::kMine) continue;
      if (!record.FinishRun(claim->run, RunStatus::kOk, "").ok()) _exit(2);
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(*Open().Runs(1), SizeIs(kRuns));
}

TEST_F(Claims, WhoReadsWhileARecordIsMadeSeesItWhole) {
  for (int round = 0; round < 30; ++round) {
    std::filesystem::remove_all(folder_);
    const pid_t writer = fork();
    if (writer == 0) _exit(Record::Open(folder_, Record::Mode::kWrite).ok() ? 0 : 1);
    absl::StatusOr<Record> read = Record::Open(folder_, Record::Mode::kRead);
    while (absl::IsNotFound(read.status())) read = Record::Open(folder_, Record::Mode::kRead);
    int status = 0;
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->Experiments().ok());
  }
}

TEST_F(Claims, TakingOverIsForRunsThatDidNotEndWell) {
  Record record = Open();
  for (const auto& [status, taken] : {std::pair{RunStatus::kInterrupted, true},
                                      {RunStatus::kFailed, true},
                                      {RunStatus::kInvalid, true},
                                      {RunStatus::kOk, false},
                                      {RunStatus::kPartial, false},
                                      {RunStatus::kDiverged, false}}) {
    const int64_t run = *record.BeginRun(Planned(record, "a", 1));
    ASSERT_TRUE(record.FinishRun(run, status, "why").ok());
    EXPECT_EQ(record.ResumeRun(run).ok(), taken) << ToString(status);
    EXPECT_EQ(record.Run(run)->status, taken ? RunStatus::kRunning : status);
  }
}

TEST_F(Claims, CoverageCountsRowsBetweenTwoSteps) {
  Record record = Open();
  const int64_t run = *record.BeginRun(Planned(record, "a", 1));
  EXPECT_EQ(record.Coverage(run, 1, 9)->rows, 0);
  std::vector<StepRow> rows;
  for (const int64_t step : {3, 4, 5}) {
    for (const int64_t stage : {0, 1}) rows.push_back(InstantStep(step, stage));
  }
  ASSERT_TRUE(record.Add(run, rows).ok());
  const StepCoverage all = *record.Coverage(run, 1, 9);
  EXPECT_THAT((std::vector{all.rows, all.first, all.last}), ElementsAre(6, 3, 5));
  const StepCoverage some = *record.Coverage(run, 4, 4);
  EXPECT_THAT((std::vector{some.rows, some.first, some.last}), ElementsAre(2, 4, 4));
}

TEST_F(Claims, AFullDiskStillTakesHowTheRunEnded) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small tmpfs";
  std::filesystem::create_directories(folder_);
  if (mount("small", folder_.c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "this sandbox forbids mounting a tmpfs";
  }
  {
    Record record = Open();
    const int64_t run = *record.BeginRun(Planned(record, "a", 1));
    std::ofstream filler(folder_ + "/filler");
    while (filler.write("x", 1).flush()) {
    }
    const absl::Status added = record.AddFacts(run, {{"long", std::string(100'000, 'x')}});
    EXPECT_TRUE(absl::IsResourceExhausted(added)) << added;
    EXPECT_TRUE(record.FinishRun(run, RunStatus::kFailed, std::string(added.message())).ok());
    EXPECT_EQ(record.Run(run)->status, RunStatus::kFailed);
    const absl::Status begun = record.BeginRun(Planned(record, "a", 2)).status();
    EXPECT_TRUE(absl::IsResourceExhausted(begun)) << begun;
  }
  umount2(folder_.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace longhaul
