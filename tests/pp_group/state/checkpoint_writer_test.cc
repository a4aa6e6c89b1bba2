#include "pp_group/state/checkpoint_writer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

absl::Duration Now() { return absl::Now() - absl::UnixEpoch(); }

namespace fs = std::filesystem;
using testing::ElementsAre;

std::string Folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "/checkpoint_writer_" + test->name();
  fs::remove_all(folder);
  return folder;
}

Checkpoint Of(int64_t step, size_t bytes = 100) {
  Checkpoint checkpoint{.step = step, .group = 0, .stage = 0, .spec = "a=1\n", .sections = {}};
  checkpoint.sections.emplace_back("x",
                                   std::vector<std::byte>(bytes, static_cast<std::byte>(step)));
  return checkpoint;
}

// A file's place that opens when the test says so.
struct Gate {
  absl::Notification begun, open;
};

TEST(CheckpointWriter, TrainingGoesOnWhileAFileIsWrittenAndTheFileHoldsTheStepItWasTakenAt) {
  const std::string folder = Folder();
  const TrainSpec spec = SmallSpec(2, 2);
  const History whole = RunAll(spec);
  Gate gate;
  CheckpointWriter writer(folder, 2, Now,
                          [&](const std::string& f, const Checkpoint& c, int64_t keep) {
                            if (!gate.begun.HasBeenNotified()) gate.begun.Notify();
                            gate.open.WaitForNotification();
                            return WriteCheckpoint(f, c, keep);
                          });
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  History history;
  RunSteps(*trainer, 5, &history);
  ASSERT_TRUE(writer.Begin(*trainer->Snapshot()).ok());
  gate.begun.WaitForNotification();
  RunSteps(*trainer, 4, &history);  // the write has begun and cannot end before these steps
  EXPECT_TRUE(CheckpointSteps(folder, 0, 0).empty());
  EXPECT_EQ(writer.times().written, 0);
  gate.open.Notify();
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(writer.times().written, 1);
  EXPECT_THAT(CheckpointSteps(folder, 1, 1), ElementsAre(5));
  const std::unique_ptr<Trainer> resumed = NewTrainer(spec);
  ASSERT_TRUE(resumed->LoadCheckpoint(folder).ok());
  ASSERT_EQ(resumed->step(), 5);
  History rest;
  RunSteps(*resumed, spec.steps - 5, &rest);
  EXPECT_EQ(rest.hashes.back(), whole.hashes.back());
}

TEST(CheckpointWriter, BeginWaitsForTheSetBeforeItSoThatOneSnapshotIsHeld) {
  std::atomic<int> at_once = 0, most = 0;
  CheckpointWriter writer("unused", 2, Now, [&](const std::string&, const Checkpoint&, int64_t) {
    most = std::max<int>(most, ++at_once);
    absl::SleepFor(absl::Milliseconds(20));
    --at_once;
    return absl::OkStatus();
  });
  for (int64_t step = 1; step <= 4; ++step) ASSERT_TRUE(writer.Begin({Of(step)}).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(most, 1);
  EXPECT_EQ(writer.times().written, 4);
  EXPECT_GT(writer.times().waited, absl::Milliseconds(40));
}

TEST(CheckpointWriter, AFailureIsToldByThePollAfterItAndNothingMoreIsWritten) {
  absl::Notification failed;
  int calls = 0;
  CheckpointWriter writer("unused", 2, Now, [&](const std::string&, const Checkpoint&, int64_t) {
    ++calls;
    failed.Notify();
    return absl::ResourceExhaustedError("write x: No space left on device");
  });
  ASSERT_TRUE(writer.Begin({Of(1), Of(1)}).ok());
  failed.WaitForNotification();
  EXPECT_TRUE(absl::IsResourceExhausted(writer.Finish()));
  EXPECT_TRUE(absl::IsResourceExhausted(writer.Poll()));
  EXPECT_TRUE(absl::IsResourceExhausted(writer.Begin({Of(2)})));
  EXPECT_TRUE(absl::IsResourceExhausted(writer.Finish()));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(writer.times().written, 0);
}

TEST(CheckpointWriter, WhatWasTakenIsWrittenWhenTheWriterEnds) {
  const std::string folder = Folder();
  {
    CheckpointWriter writer(folder, 2, Now);
    ASSERT_TRUE(writer.Begin({Of(3, 1 << 22)}).ok());
  }
  EXPECT_TRUE(ReadCheckpoint(CheckpointPath(folder, 0, 0, 3)).ok());
}

TEST(CheckpointWriter, KeepsAsManyStepsAsItIsTold) {
  const std::string folder = Folder();
  CheckpointWriter writer(folder, 3, Now);
  for (int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(writer.Begin({Of(step)}).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_THAT(CheckpointSteps(folder, 0, 0), ElementsAre(3, 4, 5));
}

// A file of another, longer run stays in the way of counting, never the one just written.
TEST(CheckpointWriter, TheFileJustWrittenStaysWhateverElseIsThere) {
  const std::string folder = Folder();
  for (const int64_t step : {100, 200, 7}) ASSERT_TRUE(WriteCheckpoint(folder, Of(step), 2).ok());
  EXPECT_THAT(CheckpointSteps(folder, 0, 0), testing::Contains(7));
}

// SIGKILL while bytes of the newest file are on their way: the old files are whole, the new one is
// not there under its name, and the next write of that step succeeds over the torn one.
TEST(CheckpointWriter, AKillInTheMiddleOfAWriteLeavesTheFilesBefore) {
  for (int round = 0; round < 5; ++round) {
    const std::string folder = Folder();
    ASSERT_TRUE(WriteCheckpoint(folder, Of(1)).ok());
    const pid_t child = fork();
    if (child == 0) {
      CheckpointWriter writer(folder, 2, Now);
      (void)writer.Begin({Of(2, size_t{256} << 20)});
      (void)writer.Finish();
      _exit(0);
    }
    const std::string partial = CheckpointPath(folder, 0, 0, 2) + ".partial";
    std::error_code error;
    const auto written = [&] {
      const auto bytes = fs::file_size(partial, error);
      return error ? 0 : bytes;
    };
    const absl::Time late = absl::Now() + absl::Seconds(60);
    while (written() < (size_t{1} << 20) * static_cast<size_t>(1 + round) && absl::Now() < late) {
      absl::SleepFor(absl::Microseconds(200));
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the write had ended before it could be killed";
    EXPECT_THAT(CheckpointSteps(folder, 0, 0), ElementsAre(1));
    EXPECT_TRUE(ReadCheckpoint(CheckpointPath(folder, 0, 0, 1)).ok());
    ASSERT_TRUE(fs::exists(partial));
    ASSERT_TRUE(WriteCheckpoint(folder, Of(2)).ok());
    EXPECT_TRUE(ReadCheckpoint(CheckpointPath(folder, 0, 0, 2)).ok());
    EXPECT_FALSE(fs::exists(partial));
  }
}

}  // namespace
}  // namespace longhaul
