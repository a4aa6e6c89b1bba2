// What a program sees that was started inside a node.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netem/kernel/netns.h"
#include "netem/kernel/posix.h"
#include "netem/lab/lab.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// Standard output of a shell line run in the node.
std::string OutputOf(const Emulator& emulator, int node, const std::string& line) {
  int out[2];
  EXPECT_EQ(pipe(out), 0);
  NodeCommand command{{"/bin/sh", "-c", line}, {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, {}};
  command.inherit_fds[1] = out[1];
  command.inherit_fds[2] = out[1];
  auto pid = SpawnInNode(emulator, node, command);
  close(out[1]);
  EXPECT_TRUE(pid.ok()) << pid.status();
  std::string text;
  char buffer[256];
  ssize_t n = 0;
  while ((n = read(out[0], buffer, sizeof buffer)) > 0) text.append(buffer, n);
  close(out[0]);
  if (pid.ok()) waitpid(*pid, nullptr, 0);
  return text;
}

TEST(SpawnInNode, SeesOnlyLoAndNet0) {
  WithEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), [](const Emulator& e) {
    EXPECT_EQ(OutputOf(e, 0, "ls /sys/class/net"), "lo\nnet0\n");
    EXPECT_THAT(OutputOf(e, 1, "cat /proc/net/dev"), HasSubstr("net0"));
  });
}

TEST(SpawnInNode, GetsExactlyTheEnvironmentAndDescriptorsAskedFor) {
  WithEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), [](const Emulator& e) {
    EXPECT_EQ(OutputOf(e, 0, "env | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD"),
              "PATH=/usr/sbin:/usr/bin:/sbin:/bin\n");
    // 0, 1 and 2, and the one that ls itself opens to read the folder.
    EXPECT_EQ(OutputOf(e, 0, "ls /proc/self/fd"), "0\n1\n2\n3\n");
  });
}

TEST(SpawnInNamespace, DescriptorsMaySwapPlaces) {
  RunInLab([] {
    int a[2], b[2];  // the first of this process, so a shell can name them with one digit
    ASSERT_EQ(pipe(a), 0);
    ASSERT_EQ(pipe(b), 0);
    auto space = NetNamespace::Create("node");
    ASSERT_TRUE(space.ok()) << space.status();
    const std::string line =
        "echo to-a >&" + std::to_string(b[1]) + "; echo to-b >&" + std::to_string(a[1]);
    NodeCommand command{{"/bin/sh", "-c", line}, {}, {{a[1], b[1]}, {b[1], a[1]}}};
    auto pid = SpawnInNamespace(space->fd(), command);
    ASSERT_TRUE(pid.ok()) << pid.status();
    waitpid(*pid, nullptr, 0);
    char text[16] = {};
    EXPECT_EQ(read(a[0], text, 5), 5);
    EXPECT_STREQ(text, "to-a\n");
    EXPECT_EQ(read(b[0], text, 5), 5);
    EXPECT_STREQ(text, "to-b\n");
  });
}

TEST(SpawnInNode, ProgramThatIsNotThereIsAnErrorOfTheCall) {
  WithEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), [](const Emulator& e) {
    auto pid = SpawnInNode(e, 0, {{"/no/such/program"}, {}, {}});
    EXPECT_FALSE(pid.ok());
    EXPECT_THAT(std::string(pid.status().message()), HasSubstr("/no/such/program"));
    EXPECT_THAT(std::string(pid.status().message()), HasSubstr("exec"));
    EXPECT_FALSE(SpawnInNode(e, 2, {{"/bin/true"}, {}, {}}).ok());
    EXPECT_FALSE(SpawnInNode(e, 0, {}).ok());
  });
}

TEST(SpawnInNode, TrafficCrossesTheInterfaceCountedByTheKernel) {
  WithEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2), [](const Emulator& e) {
    const auto sent = [&] {
      return std::stoll(OutputOf(e, 0, "cat /sys/class/net/net0/statistics/tx_bytes"));
    };
    const long long before = sent();
    auto socket = OpenSocketIn(e.node_netns_fd(0), AF_INET, SOCK_DGRAM, 0);
    ASSERT_TRUE(socket.ok());
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    to.sin_addr.s_addr = inet_addr(NodeAddress(1).c_str());
    ASSERT_EQ(
        sendto(socket->get(), "0123456789", 10, 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
        10);
    EXPECT_EQ(sent() - before, 14 + 20 + 8 + 10);
  });
}

TEST(SpawnInNode, DiesWithItsParent) {
  if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
  RunInLab([] {
    auto emulator = BuildEmulator(EmulatorKind::kTap, *UniformTopology("regional", 2));
    ASSERT_TRUE(emulator.ok()) << emulator.status();
    int alive[2];
    ASSERT_EQ(pipe(alive), 0);
    const int netns_fd = (*emulator)->node_netns_fd(0);
    const pid_t parent = fork();
    if (parent == 0) {
      close(alive[0]);
      NodeCommand command{{"/bin/sleep", "1000"}, {}, {{5, alive[1]}}};
      auto pid = SpawnInNamespace(netns_fd, command);
      if (!pid.ok()) _exit(1);
      raise(SIGKILL);
    }
    close(alive[1]);
    waitpid(parent, nullptr, 0);
    pollfd end{alive[0], POLLIN, 0};
    EXPECT_EQ(poll(&end, 1, 10'000), 1) << "the program outlives its parent";
  });
}

}  // namespace
}  // namespace longhaul
