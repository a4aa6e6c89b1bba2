// The pieces between the processes of a run: events, gates, comparison of runs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "experiments/run/compare_runs.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/phase_gate.h"
#include "tests/experiments/command/command_line.h"
#include "tests/experiments/record/instant_step.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
  }
  int ends[2];
};

TEST(EventStream, LinesComeBackAsEvents) {
  Pipe pipe;
  FdEventSink sink(pipe.ends[1]);
  sink.Emit({{"event", "step"}, {"step", 3}});
  sink.Emit({{"event", "finished"}, {"rank", 1}});
  std::vector<std::string> seen;
  EventReader reader(pipe.ends[0]);
  ASSERT_TRUE(reader.Read([&](const nlohmann::json& e) { seen.push_back(e["event"]); }).ok());
  EXPECT_THAT(seen, ElementsAre("step", "finished"));
}

TEST(EventStream, HalfALineWaitsForItsRest) {
  Pipe pipe;
  EventReader reader(pipe.ends[0]);
  int events = 0;
  const auto count = [&](const nlohmann::json&) { ++events; };
  ASSERT_EQ(write(pipe.ends[1], "{\"event\":", 9), 9);
  ASSERT_TRUE(reader.Read(count).ok());
  EXPECT_EQ(events, 0);
  ASSERT_EQ(write(pipe.ends[1], "\"x\"}\n", 5), 5);
  ASSERT_TRUE(reader.Read(count).ok());
  EXPECT_EQ(events, 1);
}

TEST(EventStream, WhatIsNotAnEventIsDataLossThatQuotesIt) {
  Pipe pipe;
  ASSERT_EQ(write(pipe.ends[1], "garbage\n", 8), 8);
  EventReader reader(pipe.ends[0]);
  const auto status = reader.Read([](const nlohmann::json&) {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("garbage"));
}

TEST(EventStream, ALineThatCouldTearIsRefused) {
  Pipe pipe;
  FdEventSink sink(pipe.ends[1]);
  sink.Emit({{"event", "fact"}, {"value", std::string(PIPE_BUF, 'x')}});
  EXPECT_EQ(sink.status().code(), absl::StatusCode::kInternal);
}

TEST(EventStream, OnlyTheFirstFailureIsTold) {
  Pipe pipe;
  FdEventSink sink(pipe.ends[1]);
  sink.EmitFailure(2, 7, absl::UnavailableError("cause"));
  sink.EmitFailure(2, 7, absl::UnavailableError("consequence"));
  close(pipe.ends[1]);
  pipe.ends[1] = -1;
  std::vector<std::string> seen;
  EventReader reader(pipe.ends[0]);
  ASSERT_TRUE(reader.Read([&](const nlohmann::json& e) { seen.push_back(e["message"]); }).ok());
  EXPECT_THAT(seen, ElementsAre("cause"));
}

TEST(PhaseGates, OpenOnlyWhenTheLastWorkerHasArrived) {
  std::vector<std::string> phases;
  PhaseGates gates([&](const std::string& phase) { phases.push_back(phase); });
  const int a = *gates.AddWorker(), b = *gates.AddWorker();
  std::atomic<int> passed{0};
  std::thread first([&] { PassPhase(a, "ready"), ++passed; });
  while (true) {  // until the first has knocked
    char peek;
    if (recv(gates.fds()[0], &peek, 1, MSG_PEEK | MSG_DONTWAIT) > 0) break;
    std::this_thread::yield();
  }
  gates.Arrived(0);
  EXPECT_TRUE(phases.empty());
  EXPECT_EQ(passed, 0);
  std::thread second([&] { PassPhase(b, "ready"), ++passed; });
  char peek;
  ASSERT_GT(recv(gates.fds()[1], &peek, 1, MSG_PEEK), 0);
  gates.Arrived(1);
  first.join();
  second.join();
  EXPECT_THAT(phases, ElementsAre("ready"));
  close(a);
  close(b);
}

TEST(PhaseGates, AFailureOpensThemForGood) {
  PhaseGates gates([](const std::string&) { FAIL() << "nobody arrived"; });
  const int a = *gates.AddWorker();
  gates.OpenAll();
  PassPhase(a, "ready");  // returns
  close(a);
}

class Comparison : public testing::Test {
 protected:
  Comparison() : record_(*Record::Open(scratch_.path(), Record::Mode::kWrite)) {
    experiment_ = *record_.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
  }
  int64_t Run(double loss, std::optional<uint64_t> hash, uint64_t payload, double held_out = 2.25,
              const std::string& hash_kind = kHashKind) {
    RunRow row;
    row.experiment_id = experiment_;
    if (!hash_kind.empty()) row.facts[kHashFact] = hash_kind;
    const int64_t run = *record_.BeginRun(row);
    StepRow step = InstantStep(1, 1);
    step.loss_nat = loss;
    step.parameter_hash = hash;
    EXPECT_TRUE(record_.AddSteps(run, std::span(&step, 1)).ok());
    CrossingRow crossing{};
    crossing.direction = Direction::kForward;
    crossing.dst_rank = 1;
    crossing.payload_hash = payload;
    EXPECT_TRUE(record_.AddCrossings(run, std::span(&crossing, 1)).ok());
    for (const EvalCodec codec : {EvalCodec::kOff, EvalCodec::kOn}) {
      EXPECT_TRUE(record_
                      .AddEvaluation(run, {.step = 1,
                                           .codec = codec,
                                           .loss_nat = codec == EvalCodec::kOn ? held_out : 2.0,
                                           .standard_error_nat = 0.1,
                                           .tokens = 8})
                      .ok());
    }
    return run;
  }
  ScratchFolder scratch_;
  Record record_;
  int64_t experiment_;
};

TEST_F(Comparison, EqualRunsAreBitIdentical) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 7, 9);
  EXPECT_TRUE(CompareRuns(record_, a, b)->equal);
}

TEST_F(Comparison, OneBitOfLossIsADifference) {
  const int64_t a = Run(2.5, 7, 9), b = Run(std::nextafter(2.5, 3.0), 7, 9);
  const auto comparison = CompareRuns(record_, a, b);
  EXPECT_FALSE(comparison->equal);
  EXPECT_THAT(comparison->text, HasSubstr("step 1, group 0, stage 1: loss"));
}

TEST_F(Comparison, OneParameterIsADifference) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 8, 9);
  EXPECT_THAT(CompareRuns(record_, a, b)->text, HasSubstr("parameters"));
}

TEST_F(Comparison, HashesCountWhereBothRunsHaveThemAndOfOneKind) {
  const int64_t hashed = Run(2.5, 7, 9);
  for (const int64_t other : {Run(2.5, std::nullopt, 9), Run(2.5, 8, 9, 2.25, ""),
                              Run(2.5, 8, 9, 2.25, kHashesOfTwoKinds)}) {
    for (const auto& [a, b] : {std::pair(hashed, other), std::pair(other, hashed)}) {
      const auto comparison = CompareRuns(record_, a, b);
      EXPECT_TRUE(comparison->equal) << comparison->text;
      EXPECT_THAT(comparison->text, HasSubstr("1 training losses, 0 parameter hashes"));
    }
  }
  EXPECT_THAT(CompareRuns(record_, hashed, Run(2.5, 8, 9, 2.25, ""))->text,
              HasSubstr("not compared: parameter hashes (the runs have them of two kinds)"));
  EXPECT_FALSE(CompareRuns(record_, Run(2.5, 7, 9, 2.25, ""), Run(2.5, 8, 9, 2.25, ""))->equal)
      << "runs of before there were kinds";
  EXPECT_TRUE(CompareRuns(record_, Run(2.5, 7, 9, 2.25, kHashesOfTwoKinds),
                          Run(2.5, 8, 9, 2.25, kHashesOfTwoKinds))
                  ->equal);
}

TEST_F(Comparison, OneEncodedByteIsADifference) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 7, 10);
  EXPECT_THAT(CompareRuns(record_, a, b)->text, HasSubstr("crossing 0 > 1 (forward)"));
}

TEST_F(Comparison, OneBitOfAHeldOutLossIsADifference) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 7, 9, std::nextafter(2.25, 3.0));
  const auto comparison = CompareRuns(record_, a, b);
  EXPECT_FALSE(comparison->equal);
  EXPECT_THAT(comparison->text, HasSubstr("held-out loss, codec on, step 1: 2.25 against"));
}

TEST_F(Comparison, AHeldOutLossThatOneRunLacksIsADifference) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 7, 9);
  ASSERT_TRUE(record_
                  .AddEvaluation(b, {.step = 0,
                                     .codec = EvalCodec::kOn,
                                     .loss_nat = 5,
                                     .standard_error_nat = 0,
                                     .tokens = 8})
                  .ok());
  EXPECT_FALSE(CompareRuns(record_, a, b)->equal);
  EXPECT_FALSE(CompareRuns(record_, b, a)->equal);
}

TEST_F(Comparison, TheBoundaryBytesOfAResumedRunCountLikeAnyOthers) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 7, 10);
  ASSERT_TRUE(record_.AddFacts(b, {{"resumed_from_step", "1"}}).ok());
  EXPECT_FALSE(CompareRuns(record_, a, b)->equal);
}

TEST_F(Comparison, WhatWasComparedAndWhatWasNotIsSaid) {
  const int64_t a = Run(2.5, 7, 9), b = Run(2.5, 7, 9);
  EXPECT_THAT(
      CompareRuns(record_, a, b)->text,
      HasSubstr("1 training losses, 1 parameter hashes, the encoded bytes of 1 crossings, 2 "
                "held-out losses; not compared: times, links"));
  ASSERT_TRUE(record_.AddFacts(b, {{"resumed_from_step", "1"}}).ok());
  EXPECT_THAT(CompareRuns(record_, a, b)->text,
              HasSubstr("not compared: the contents of outer frames (one run was resumed"));
}

}  // namespace
}  // namespace longhaul
