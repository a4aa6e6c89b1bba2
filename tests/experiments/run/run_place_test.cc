// Whose checkpoints a folder holds, and what --resume makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "experiments/run/machine_limits.h"
#include "experiments/run/run_place.h"
#include "pp_group/state/checkpoint.h"
#include "tests/experiments/command/command_line.h"
#include "tests/experiments/record/instant_step.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

RunSpec TwoStages() {
  RunSpec spec{};
  spec.train.steps = 30;
  spec.schedule = {"1f1b", 2};
  spec.net.transport = "loopback";
  spec.checkpoint.every_steps = 10;
  return spec;
}

class Place : public testing::Test {
 protected:
  Place() : record_(*Record::Open(scratch_.path() + "/results", Record::Mode::kWrite)) {
    row_.experiment_id = *record_.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
    row_.arm = "a";
    row_.spec_toml = "the spec";
  }
  // A run that trained from step `first` to `steps`, wrote checkpoints, and ended as it says.
  int64_t Earlier(int64_t steps, const std::vector<int64_t>& checkpoints, RunStatus status,
                  int64_t first = 1) {
    absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, false);
    EXPECT_TRUE(place.ok()) << place.status();
    std::vector<StepRow> rows;
    for (int64_t step = first; step <= steps; ++step) {
      for (const int64_t stage : {0, 1}) rows.push_back(InstantStep(step, stage));
    }
    EXPECT_TRUE(record_.Add(place->run, rows).ok());
    for (const int64_t step : checkpoints) {
      Write(place->checkpoints->path(), step);
      CrossingRow crossing{};
      crossing.dst_rank = 1;
      EXPECT_TRUE(record_.AddCheckpointCrossings(place->run, step, std::span(&crossing, 1)).ok());
    }
    EXPECT_TRUE(record_.FinishRun(place->run, status, "").ok());
    folder_ = place->checkpoints->path();
    return place->run;
  }
  static void Write(const std::string& folder, int64_t step) {
    for (const int stage : {0, 1}) {
      EXPECT_TRUE(
          WriteCheckpoint(folder,
                          {.step = step, .group = 0, .stage = stage, .spec = "", .sections = {}})
              .ok());
    }
  }
  std::vector<int64_t> Files() const { return CheckpointSteps(folder_, 0, 1); }

  RunSpec spec_ = TwoStages();
  ScratchFolder scratch_;
  Record record_;
  RunRow row_;
  std::string folder_;
};

TEST_F(Place, WhatAnUnfinishedRunCanGoOnFromIsNeverTakenFromIt) {
  for (const RunStatus status : {RunStatus::kInterrupted, RunStatus::kFailed}) {
    row_.arm = std::string(ToString(status));
    Earlier(25, {10, 20}, status);
    const absl::Status refused = ClaimRun(record_, row_, spec_, false).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--resume"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("another --arm or --results"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(folder_));
    EXPECT_THAT(Files(), ElementsAre(10, 20));
  }
}

TEST_F(Place, CheckpointsOfAFinishedRunMakeRoomAndThatIsSaid) {
  Earlier(30, {10, 20}, RunStatus::kOk);
  const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, false);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->run, 2);
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(place->notices, ElementsAre(HasSubstr("checkpoints of run 1 (ok)")));
}

TEST_F(Place, ALivingRunIsLeftAloneByBothKindsOfStart) {
  const absl::StatusOr<RunPlace> alive = ClaimRun(record_, row_, spec_, false);
  ASSERT_TRUE(alive.ok());
  Record other = *Record::Open(scratch_.path() + "/results", Record::Mode::kWrite);
  for (const bool resume : {false, true}) {
    const absl::Status refused = ClaimRun(other, row_, spec_, resume).status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("process " + std::to_string(getpid())));
  }
  EXPECT_THAT(*record_.Runs(1), SizeIs(1));
  row_.arm = "b";  // the same spec under another name is another run with its own folder
  EXPECT_TRUE(ClaimRun(other, row_, spec_, false).ok());
}

TEST_F(Place, UnfinishedRunsAreTakenOverFailedOnesToo) {
  for (const RunStatus status :
       {RunStatus::kInterrupted, RunStatus::kFailed, RunStatus::kInvalid}) {
    row_.arm = std::string(ToString(status));
    const int64_t run = Earlier(25, {10, 20}, status);
    const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, true);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->run, run);
    EXPECT_FALSE(place->finished);
    EXPECT_THAT(place->notices, ElementsAre(HasSubstr("goes on after step 20 of 30")));
    EXPECT_EQ(record_.Run(run)->status, RunStatus::kRunning);
  }
}

TEST_F(Place, FinishedRunsAreToldAndNotTrained) {
  for (const RunStatus status :
       {RunStatus::kOk, RunStatus::kDiverged, RunStatus::kPartial, RunStatus::kInvalid}) {
    row_.arm = std::string(ToString(status));
    const int64_t run = Earlier(30, {10, 20}, status);
    const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, true);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_TRUE(place->finished);
    EXPECT_EQ(place->run, run);
    EXPECT_EQ(place->status, status);
    EXPECT_EQ(record_.Run(run)->status, status);
    EXPECT_THAT(Files(), ElementsAre(10, 20));
  }
}

TEST_F(Place, GoesOnFromWhatTheRecordHasCaughtUpWith) {
  Earlier(19, {10, 20}, RunStatus::kFailed);  // the steps of the second never reached the record
  const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, true);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(Files(), ElementsAre(10));
  EXPECT_THAT(place->notices,
              ElementsAre(HasSubstr("step 20 is removed"), HasSubstr("step 10 of")));
}

TEST_F(Place, HashesOfAnEarlierKindAreToldOnceAndMarked) {
  const int64_t run = Earlier(20, {20}, RunStatus::kInterrupted);
  row_.facts[kHashFact] = kHashKind;
  EXPECT_THAT(ClaimRun(record_, row_, spec_, true)->notices,
              ElementsAre(HasSubstr("run 1 has parameter hashes of another kind so far"),
                          HasSubstr("goes on after step 20")));
  EXPECT_EQ(record_.Run(run)->facts.at(kHashFact), kHashesOfTwoKinds);
  ASSERT_TRUE(record_.FinishRun(run, RunStatus::kInterrupted, "").ok());
  EXPECT_THAT(ClaimRun(record_, row_, spec_, true)->notices,
              ElementsAre(HasSubstr("goes on after step 20")));
}

TEST_F(Place, GoesOnFromWhereTheCrossingsWereCounted) {
  Earlier(25, {10}, RunStatus::kFailed);
  Write(folder_, 20);
  const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, true);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(Files(), ElementsAre(10));
}

TEST_F(Place, WhereGroupsComeAndGoEveryRoundSinceTheRunsFirstStepMustBeRecorded) {
  spec_.outer.on_group_loss = "continue";
  spec_.outer.groups = 1;
  spec_.outer.inner_steps = 5;
  // Began with another run's step 10; round 4 is steps 16 to 20.
  for (const bool whole : {true, false}) {
    row_.arm = whole ? "whole" : "without a round";
    const int64_t run = Earlier(25, {20}, RunStatus::kInterrupted, 11);
    ASSERT_TRUE(record_.AddFacts(run, {{kRestoredStepFact, "10"}}).ok());
    for (const int64_t round : whole ? std::vector<int64_t>{3, 4, 5} : std::vector<int64_t>{4, 5}) {
      RoundRow row{};
      row.round = round;
      row.last_step = round * 5;
      row.members = "0";
      ASSERT_TRUE(record_.Add<RoundRow>(run, {&row, 1}).ok());
    }
    const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, true);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_THAT(Files(), whole ? testing::Matcher<std::vector<int64_t>>(ElementsAre(20))
                               : testing::Matcher<std::vector<int64_t>>(IsEmpty()));
  }
}

TEST_F(Place, CheckpointsOfAnotherRecordMakeAPartialRun) {
  Earlier(25, {10, 20}, RunStatus::kFailed);
  std::filesystem::remove(scratch_.path() + "/results/longhaul.sqlite");
  std::filesystem::remove(scratch_.path() + "/results/longhaul.sqlite-wal");
  std::filesystem::remove(scratch_.path() + "/results/longhaul.sqlite-shm");
  Record fresh = *Record::Open(scratch_.path() + "/results", Record::Mode::kWrite);
  row_.experiment_id = *fresh.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
  EXPECT_TRUE(absl::IsFailedPrecondition(ClaimRun(fresh, row_, spec_, false).status()));
  {
    const absl::StatusOr<RunPlace> place = ClaimRun(fresh, row_, spec_, true);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(fresh.Run(place->run)->facts.at(kPartialFromFact), "21");
    EXPECT_THAT(place->notices, ElementsAre(HasSubstr("partial, steps 21 to 30")));
    ASSERT_TRUE(fresh.FinishRun(place->run, RunStatus::kInterrupted, "killed").ok());
  }
  // Killed before its first own checkpoint it goes on from the same place.
  const absl::StatusOr<RunPlace> again = ClaimRun(fresh, row_, spec_, true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->run, 1);
  EXPECT_THAT(Files(), ElementsAre(20));
}

TEST_F(Place, NothingToResumeStartsAtTheBeginningAndSaysSo) {
  const absl::StatusOr<RunPlace> place = ClaimRun(record_, row_, spec_, true);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_THAT(place->notices, ElementsAre(HasSubstr("nothing to resume")));
  RunSpec none = spec_;
  none.checkpoint.every_steps = 0;
  row_.arm = "b";
  EXPECT_TRUE(absl::IsInvalidArgument(ClaimRun(record_, row_, none, true).status()));
}

TEST_F(Place, LinksOfTheEarlierPartAreKept) {
  const int64_t run = Earlier(25, {10, 20}, RunStatus::kFailed);
  const LinkRow bad{.phase = LinkPhase::kBefore,
                    .src_node = 0,
                    .dst_node = 1,
                    .nominal_rtt_s = 0.06,
                    .ok = false,
                    .why = "slow"};
  ASSERT_TRUE(record_.Add<LinkRow>(run, {&bad, 1}).ok());
  ASSERT_TRUE(ClaimRun(record_, row_, spec_, true).ok());
  EXPECT_EQ(record_.Run(run)->facts.at(kEarlierLinksFact), "link 0 > 1: slow");
}

TEST(CoreNeeds, AreThreadsOfEveryProcess) {
  RunSpec spec{};
  spec.schedule = {"1f1b", 4};
  spec.outer.groups = 2;
  spec.limits.threads = 3;
  spec.net.transport = "loopback";
  EXPECT_EQ(CoresNeeded(spec), 3);
  spec.net.transport = "ucx";
  EXPECT_EQ(CoresNeeded(spec), 24);
  spec.compute = RunSpec::Compute{};
  EXPECT_EQ(CoresNeeded(spec), 1) << "workers that sleep";
}

TEST(CoreNeeds, OthersCountWhileTheyLiveAndOnThisMachine) {
  RunRow loopback, shaped;
  loopback.host = shaped.host = "here";
  loopback.threads = 2;
  shaped.threads = 3;
  shaped.profile = "regional";
  shaped.stages = 4;
  shaped.groups = 2;
  RunRow far = shaped, over = shaped, asleep = shaped;
  far.host = "there";
  over.status = RunStatus::kOk;
  asleep.facts = {{kComputeFact, "injected"}};
  EXPECT_EQ(CoresBusy({loopback, shaped, far, over, asleep}, "here"), 27);
  EXPECT_GE(CoresAllowed(), 1);
}

}  // namespace
}  // namespace longhaul
