#include "netem/lab/lab.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "netem/emulators/tap_device.h"
#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

int WaitStatus(pid_t pid) {
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

int ExitOf(const absl::StatusOr<LabProcess>& lab) {
  if (!lab.ok()) return -1;
  const int status = WaitStatus(lab->pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define SKIP_WITHOUT_LAB(lab)                                                   \
  if (absl::IsPermissionDenied((lab).status())) GTEST_SKIP() << (lab).status(); \
  ASSERT_TRUE((lab).ok()) << (lab).status()

TEST(Lab, ExitsWithTheValueOfItsBody) {
  auto lab = StartLab([] { return 42; }, {});
  SKIP_WITHOUT_LAB(lab);
  EXPECT_EQ(ExitOf(lab), 42);
}

TEST(Lab, BodyKilledBySignalExitsWith128PlusSignal) {
  auto lab = StartLab([] { return raise(SIGKILL); }, {});
  SKIP_WITHOUT_LAB(lab);
  EXPECT_EQ(ExitOf(lab), 128 + SIGKILL);
}

TEST(Lab, TermReachesTheBodyThroughKeeperAndInit) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  auto lab = StartLab(
      [&] {
        static volatile sig_atomic_t stop = 0;
        signal(SIGTERM, [](int) { stop = 1; });
        if (write(ready[1], "r", 1) != 1) return 1;
        while (stop == 0) usleep(1000);
        return 7;
      },
      {ready[1]});
  SKIP_WITHOUT_LAB(lab);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(lab->pid, SIGTERM);
  EXPECT_EQ(ExitOf(lab), 7);
  close(ready[0]);
  close(ready[1]);
}

TEST(Lab, SeesOnlyItsOwnProcessesDevicesAndRun) {
  auto lab = StartLab(
      [] {
        int processes = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
          processes += isdigit(entry.path().filename().string()[0]) != 0;
        }
        EXPECT_EQ(processes, 2) << "init and this one";
        const std::string devices = ReadFileOrEmpty("/proc/thread-self/net/dev");
        EXPECT_EQ(std::count(devices.begin(), devices.end(), '\n'), 2) << devices;
        EXPECT_TRUE(std::filesystem::is_empty("/run/netns"));
        return testing::Test::HasFailure() ? 1 : 0;
      },
      {});
  SKIP_WITHOUT_LAB(lab);
  EXPECT_EQ(ExitOf(lab), 0);
}

TEST(Lab, KeepsOnlyTheDescriptorsAskedFor) {
  const Fd kept(open("/dev/null", O_RDONLY));
  const Fd other(open("/dev/null", O_RDONLY));
  auto lab = StartLab(
      [&] {
        const bool right = fcntl(kept.get(), F_GETFD) >= 0 && fcntl(other.get(), F_GETFD) < 0;
        return right ? 0 : 1;
      },
      {kept.get()});
  SKIP_WITHOUT_LAB(lab);
  EXPECT_EQ(ExitOf(lab), 0);
}

TEST(Lab, InitReapsOrphans) {
  auto lab = StartLab(
      [] {
        const pid_t child = fork();
        if (child == 0) {
          if (fork() == 0) _exit(0);  // orphaned at once: init must reap it
          _exit(0);
        }
        waitpid(child, nullptr, 0);
        for (int i = 0; i < 2000; ++i) {
          int processes = 0;
          for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
            processes += isdigit(entry.path().filename().string()[0]) != 0;
          }
          if (processes == 2) return 0;
          usleep(1000);
        }
        return 1;
      },
      {});
  SKIP_WITHOUT_LAB(lab);
  EXPECT_EQ(ExitOf(lab), 0);
}

std::set<std::string> NetNamespacesInUse() {
  std::set<std::string> spaces;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    auto link = std::filesystem::read_symlink(entry.path() / "ns/net", ignored);
    if (!ignored) spaces.insert(link);
  }
  return spaces;
}

// The command is a child here, so that it can be killed while we watch. It builds a lab with two
// nodes and a program in each, then tells the lab's network namespace and waits.
[[noreturn]] void RunCommand(int report_fd) {
  auto lab = StartLab(
      [&] {
        auto topology = UniformTopology("continental-us", 2);
        auto emulator = BuildEmulator(EmulatorKind::kTap, *topology);
        if (!emulator.ok()) return 1;
        for (int node : {0, 1}) {
          auto pid = SpawnInNode(**emulator, node, {{"/bin/sleep", "1000"}, {}, {}});
          if (!pid.ok()) return 2;
        }
        char link[64] = {};
        if (readlink("/proc/self/ns/net", link, sizeof link) < 0) return 3;
        if (write(report_fd, link, sizeof link) < 0) return 4;
        pause();
        return 0;
      },
      {report_fd});
  close(report_fd);
  if (lab.ok()) waitpid(lab->pid, nullptr, 0);
  _exit(0);
}

TEST(Lab, KillNineOfTheCommandLeavesNothing) {
  if (auto s = CheckTunDevice(); !s.ok()) GTEST_SKIP() << s;
  const std::string mounts_before = ReadFileOrEmpty("/proc/self/mounts");
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t command = fork();
  if (command == 0) {
    close(report[0]);
    RunCommand(report[1]);
  }
  close(report[1]);
  char space[64] = {};
  const ssize_t got = read(report[0], space, sizeof space);
  ASSERT_GT(got, 0) << "the lab could not be built";
  EXPECT_TRUE(NetNamespacesInUse().contains(space));
  kill(command, SIGKILL);
  WaitStatus(command);
  // The pipe's other writers were the lab's processes: its end says that all of them are dead.
  pollfd end{report[0], POLLIN, 0};
  ASSERT_EQ(poll(&end, 1, 10'000), 1) << "a process of the lab lives on";
  EXPECT_EQ(read(report[0], space + 32, 1), 0);
  EXPECT_FALSE(NetNamespacesInUse().contains(space));
  EXPECT_EQ(ReadFileOrEmpty("/proc/self/mounts"), mounts_before);
  EXPECT_FALSE(std::filesystem::exists("/run/netns/w0"));
  close(report[0]);
}

constexpr uid_t kOrdinaryUser = 65534;

// Runs `body` in a child that is an ordinary user; its exit code.
int AsOrdinaryUser(const std::function<int()>& body) {
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(kOrdinaryUser) != 0 || setuid(kOrdinaryUser) != 0)) _exit(99);
    prctl(PR_SET_DUMPABLE, 1);  // setuid cleared it, and /proc/self would belong to root
    const int code = body();
    fflush(nullptr);
    _exit(code);
  }
  const int status = WaitStatus(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kForbidden = 77;

TEST(RootlessLab, BuildsNamespacesWithoutRoot) {
  const int code = AsOrdinaryUser([] {
    auto lab = StartLab(
        [] {
          auto space = NetNamespace::Create("node");
          EXPECT_TRUE(space.ok()) << space.status();
          EXPECT_EQ(geteuid(), 0u) << "root inside its own user namespace";
          return testing::Test::HasFailure() ? 1 : 0;
        },
        {});
    if (absl::IsPermissionDenied(lab.status())) return kForbidden;
    return ExitOf(lab);
  });
  if (code == kForbidden) GTEST_SKIP() << "user namespaces are forbidden here";
  EXPECT_EQ(code, 0);
}

TEST(RootlessLab, TunThatMayNotBeOpenedIsOneClearLine) {
  const int code = AsOrdinaryUser([] {
    if (CheckTunDevice().ok()) return kForbidden;
    auto lab = StartLab(
        [] {
          auto emulator = BuildEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2));
          const std::string message(emulator.status().message());
          EXPECT_FALSE(emulator.ok());
          EXPECT_THAT(message, HasSubstr("/dev/net/tun"));
          EXPECT_EQ(message.find('\n'), std::string::npos);
          EXPECT_TRUE(std::filesystem::is_empty("/run/netns")) << "something was left behind";
          return testing::Test::HasFailure() ? 1 : 0;
        },
        {});
    return lab.ok() ? ExitOf(lab) : kForbidden;
  });
  if (code == kForbidden) GTEST_SKIP() << "/dev/net/tun is open to all, or no user namespaces";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace longhaul
