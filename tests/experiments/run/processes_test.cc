// The pieces between the processes of a run: events, gates.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "experiments/train/event_stream.h"
#include "experiments/train/phase_gate.h"
#include "tests/experiments/command/command_line.h"

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

}  // namespace
}  // namespace longhaul
