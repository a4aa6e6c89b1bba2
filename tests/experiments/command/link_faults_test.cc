// What breaks the links under a training run ends it, or flags it, with the cause and within its
// deadline; nothing is left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "netem/kernel/netlink.h"
#include "netem/kernel/netns.h"
#include "netem/nodes/node_setup.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kEndless[] = "train.steps=5000";
// The peer deadline of 5 s, the lab's grace of 10, a busy machine.
constexpr double kDeadlineS = 30;

std::string Namespace(pid_t pid, const char* kind) {
  return "/proc/" + std::to_string(pid) + "/ns/" + kind;
}

class LinkFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to reach into the lab of a run";
    if (const std::string why = WhyNoLab(); !why.empty()) GTEST_SKIP() << why;
  }

  // Starts a run of two workers and returns once it trains; `workers_` has them then.
  void Train(const std::vector<std::string>& sets) {
    std::vector<std::string> arguments = {"run",
                                          scratch_.File("spec.toml", OfSmallText(TinySpec())),
                                          "--results", scratch_.path() + "/results", "--set",
                                          "net.transport=ucx", "--set", "net.peer_deadline_s=5",
                                          // What is tested here hangs on no link's figures.
                                          "--set", "net.out_of_bounds=flag", "--set",
                                          "net.profile=" + LinksWithoutRates(scratch_, 2)};
    for (const std::string& s : sets) arguments.insert(arguments.end(), {"--set", s});
    run_ = StartLonghaul(arguments, output_file());
    ASSERT_TRUE(
        Eventually([&] { return ReadFile(output_file()).find("step ") != std::string::npos; }, 60))
        << ReadFile(output_file());
    workers_ = WorkersOf(run_);
    ASSERT_EQ(workers_.size(), 2u);
  }
  // The process that owns the links.
  pid_t lab() const { return ParentOf(workers_[0]); }

  CommandResult Wait() { return WaitFor(run_, output_file()); }
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(Eventually([this] { return !AnyIsThere(workers_); }, 5));
    EXPECT_TRUE(Eventually([this] { return MountsSince(mounts_).empty(); }, 5))
        << ReadFile("/proc/mounts");
    EXPECT_EQ(ReadFile("/proc/net/dev").find("net0"), std::string::npos);
  }

  std::string output_file() const { return scratch_.path() + "/output"; }
  ScratchFolder scratch_;
  const std::vector<std::string> mounts_ = MountsSince({});
  pid_t run_ = -1;
  std::vector<pid_t> workers_;
};

TEST_F(LinkFaults, DeletedDeviceEndsTheRunWithTheNodesName) {
  Train({kEndless});
  const Fd space(open(Namespace(workers_[1], "net").c_str(), O_RDONLY | O_CLOEXEC));
  const absl::Status deleted = InNamespace(space.get(), [] {
    auto netlink = Netlink::Open();
    return netlink.ok() ? netlink->DeleteDevice(kNodeDevice) : netlink.status();
  });
  ASSERT_TRUE(deleted.ok()) << deleted;
  const CommandResult result = Wait();
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_LT(result.wall_s, kDeadlineS);
  EXPECT_THAT(result.output, testing::ContainsRegex("node w[01]"));
  ExpectNothingIsLeft();
}

TEST_F(LinkFaults, KilledEmulatorEndsTheRunAndItsWorkers) {
  Train({kEndless});
  ASSERT_EQ(kill(lab(), SIGKILL), 0);
  const CommandResult result = Wait();
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_LT(result.wall_s, kDeadlineS);
  EXPECT_THAT(result.output, testing::ContainsRegex("after step [0-9]+, .*killed by signal 9 "));
  ExpectNothingIsLeft();
}

TEST_F(LinkFaults, RemovedNameOfANamespaceDoesNotStopTheRun) {
  Train({"train.steps=60"});
  const pid_t remover = fork();
  if (remover == 0) {
    const int space = open(Namespace(lab(), "mnt").c_str(), O_RDONLY | O_CLOEXEC);
    const bool removed = setns(space, CLONE_NEWNS) == 0 &&
                         umount2("/run/netns/w1", MNT_DETACH) == 0 && unlink("/run/netns/w1") == 0;
    _exit(removed ? 0 : 1);
  }
  int status = 0;
  waitpid(remover, &status, 0);
  EXPECT_EQ(status, 0);
  const CommandResult result = Wait();
  EXPECT_TRUE(TrainedToTheEnd(result)) << result.output;
  ExpectNothingIsLeft();
}

TEST_F(LinkFaults, EmulatorThatStandsStillForTwoSecondsIsFlagged) {
  Train({"train.steps=60", "net.emulator=tap", "net.peer_deadline_s=30"});
  const pid_t emulator = lab();
  ASSERT_EQ(kill(emulator, SIGSTOP), 0);
  std::this_thread::sleep_for(2s);
  ASSERT_EQ(kill(emulator, SIGCONT), 0);
  const CommandResult result = Wait();
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("trained to the end, but its times are no evidence"));
  EXPECT_THAT(result.output, HasSubstr("the emulator stood still"));
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace longhaul
