// Whatever part of a run is stopped, the run ends within its deadline and a few seconds, and says
// what stood still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using namespace std::chrono_literals;

// net.peer_deadline_s is 3; a busy machine.
constexpr double kWithinS = 3 + 6;

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t child; list >> child;) children.push_back(child);
  }
  return children;
}

bool IsAlive(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat.find(") Z") == std::string::npos;
}

class Standstill : public testing::Test {
 protected:
  // Starts an endless run and returns once it trains.
  void Train(const std::string& transport) {
    if (transport == "ucx") {
      if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
    }
    command_ =
        StartLonghaul({"run", scratch_.File("spec.toml", OfSmallText(TinySpec())), "--results",
                       scratch_.path() + "/results", "--set", "train.steps=200000", "--set",
                       "net.transport=" + transport, "--set", "net.peer_deadline_s=3",
                       // What is tested here hangs on no link's figures.
                       "--set", "net.out_of_bounds=flag", "--set",
                       "net.profile=" + LinksWithoutRates(scratch_, 2)},
                      output_file());
    ASSERT_TRUE(
        Eventually([&] { return ReadFile(output_file()).find("step ") != std::string::npos; }, 60))
        << ReadFile(output_file());
    keeper_ = ChildrenOf(command_).at(0);
    if (transport != "ucx") return;
    init_ = ChildrenOf(keeper_).at(0);
    links_ = ChildrenOf(init_).at(0);
    workers_ = ChildrenOf(links_);
    ASSERT_EQ(workers_.size(), 2u);
  }

  void ExpectTheRunEndsWith(const std::string& regex) {
    const CommandResult result = WaitFor(command_, output_file());
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_LT(result.wall_s, kWithinS);
    EXPECT_THAT(result.output, ContainsRegex(regex));
    for (const pid_t worker : workers_)
      EXPECT_TRUE(Eventually([&] { return !IsAlive(worker); }, 5));
  }

  static std::string Stopped(pid_t pid) {
    return " stood still since step [0-9]+: process " + std::to_string(pid) +
           " is stopped \\(state T\\) for [0-9.]+ s, deadline 3 s";
  }

  std::string output_file() const { return scratch_.path() + "/output"; }
  ScratchFolder scratch_;
  pid_t command_ = -1, keeper_ = -1, init_ = -1, links_ = -1;
  std::vector<pid_t> workers_;
};

TEST_F(Standstill, OfAWorkerEndsTheRunWithItsRankAndStep) {
  Train("ucx");
  ASSERT_EQ(kill(workers_[1], SIGSTOP), 0);
  ExpectTheRunEndsWith("longhaul: rank 1 \\(group 0 stage 1\\)" + Stopped(workers_[1]));
}

TEST_F(Standstill, OfTheEmulatorsProcessEndsTheRun) {
  Train("ucx");
  ASSERT_EQ(kill(links_, SIGSTOP), 0);
  ExpectTheRunEndsWith("longhaul: the lab's own process, which runs the links" + Stopped(links_));
}

TEST_F(Standstill, OfTheLabsFirstProcessEndsTheRun) {
  Train("ucx");
  ASSERT_EQ(kill(init_, SIGSTOP), 0);
  ExpectTheRunEndsWith("longhaul: the lab's first process" + Stopped(init_));
}

TEST_F(Standstill, OfTheLabsKeeperEndsTheRun) {
  Train("ucx");
  ASSERT_EQ(kill(keeper_, SIGSTOP), 0);
  ExpectTheRunEndsWith("longhaul: the lab's keeper" + Stopped(keeper_));
}

TEST_F(Standstill, OfTheOnlyProcessEndsARunOverLoopback) {
  Train("loopback");
  ASSERT_EQ(kill(keeper_, SIGSTOP), 0);
  ExpectTheRunEndsWith("longhaul: the run's process" + Stopped(keeper_));
}

// Only the thread that moves frames, as a debugger can hold one thread.
TEST_F(Standstill, OfTheEmulatorsThreadEndsTheRun) {
  Train("ucx");
  pid_t thread = -1;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(links_) + "/task")) {
    if (ReadFile(task.path() / "comm") == "longhaul-tap\n") {
      thread = std::atoi(task.path().filename().c_str());
    }
  }
  if (thread < 0) GTEST_SKIP() << "the kernel's netem has no thread of ours";
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0) GTEST_SKIP() << "this sandbox forbids ptrace";
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, thread, 0, 0), 0);
  // Its end must be seen here before the kernel lets its process go.
  std::thread reaper([thread] {
    int status = 0;
    while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
    }
  });
  ExpectTheRunEndsWith(
      "the lab after step [0-9]+: the emulator stood still: its thread has not "
      "answered for [0-9.]+ s, deadline 3 s");
  reaper.join();
}

// A recorder that is stopped can say nothing; its lab ends without it, and it says so when it goes
// on.
TEST_F(Standstill, OfTheCommandItselfEndsItsLab) {
  Train("ucx");
  ASSERT_EQ(kill(command_, SIGSTOP), 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Eventually([&] { return !IsAlive(workers_[0]) && !IsAlive(workers_[1]); }, 20));
  EXPECT_LT(std::chrono::steady_clock::now() - start, kWithinS * 1s);
  ASSERT_EQ(kill(command_, SIGCONT), 0);
  ExpectTheRunEndsWith("longhaul: this command itself stood still since step [0-9]+: process " +
                       std::to_string(command_) + " was stopped");
  const CommandResult exported =
      RunLonghaul({"report", scratch_.path() + "/results", "--out", scratch_.path() + "/page"});
  EXPECT_EQ(exported.exit_status, 0) << exported.output;
  EXPECT_THAT(ReadFile(scratch_.path() + "/page/tables/runs.csv"),
              HasSubstr("failed,\"this command itself stood still"));
}

// Stopped and let go together, as Ctrl-Z and fg do it: the run goes on.
TEST_F(Standstill, OfAllTogetherIsForgiven) {
  Train("ucx");
  std::vector<pid_t> all = {command_, keeper_, init_, links_, workers_[0], workers_[1]};
  for (const pid_t pid : all) kill(pid, SIGSTOP);
  std::this_thread::sleep_for(5s);
  for (const pid_t pid : all) kill(pid, SIGCONT);
  std::this_thread::sleep_for(2s);
  EXPECT_TRUE(IsAlive(workers_[0]) && IsAlive(workers_[1])) << ReadFile(output_file());
  kill(command_, SIGINT);
  EXPECT_EQ(WaitFor(command_, output_file()).exit_status, 130);
}

}  // namespace
}  // namespace longhaul
