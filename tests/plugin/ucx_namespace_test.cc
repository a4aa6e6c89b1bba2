// Two ranks in network namespaces of their own, joined by a veth: bytes cross the interface, the
// transport proves it, and a link that is cut is noticed. Needs root, unshare, nsenter and ip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/plugin/child.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A namespace with a fresh sysfs, as UCX reads interfaces from /sys.
std::vector<std::string> InNamespace() {
  return {"unshare", "--net", "--mount",
          "sh",      "-c",    "mount -t sysfs none /sys && ip link set lo up && exec \"$0\""};
}

bool Shell(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

std::string Output(const std::string& command) {
  std::string text;
  if (std::FILE* const pipe = ::popen(command.c_str(), "r")) {
    std::array<char, 256> part;
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
    ::pclose(pipe);
  }
  return text;
}

class TwoNamespaces : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to make network namespaces";
    if (!Shell("unshare --net --mount true") || !Shell("command -v ip nsenter >/dev/null")) {
      GTEST_SKIP() << "needs unshare, nsenter and ip, and the right to make namespaces";
    }
    for (size_t r = 0; r < 2; ++r) {
      ranks[r] = std::make_unique<Child>(InNamespace());
      ASSERT_THAT(ranks[r]->Ask("hello"), HasSubstr("unknown command")) << "it has started";
    }
    ASSERT_TRUE(
        Shell("ip link add net0 netns " + Pid(0) + " type veth peer name net0 netns " + Pid(1)));
    for (size_t r = 0; r < 2; ++r) {
      ASSERT_TRUE(In(r, "ip addr add 10.99.0." + std::to_string(r + 1) + "/24 dev net0"));
      ASSERT_TRUE(In(r, "ip link set net0 up"));
    }
    const std::string first = ranks[0]->Ask("open auto 2000"),
                      second = ranks[1]->Ask("open net0 2000");
    ASSERT_THAT(first, testing::Not(HasSubstr("error")));
    ASSERT_THAT(second, testing::Not(HasSubstr("error")));
    ranks[0]->Tell("join 0 " + first + " " + second);
    ranks[1]->Tell("join 1 " + first + " " + second);
    ASSERT_EQ(ranks[0]->Answer(), "ok");
    ASSERT_EQ(ranks[1]->Answer(), "ok");
  }
  std::string Pid(size_t r) const { return std::to_string(ranks[r]->pid()); }
  bool In(size_t r, const std::string& command) {
    return Shell("nsenter -t " + Pid(r) + " --net --mount " + command);
  }
  int64_t TxBytes(size_t r) {
    return std::atoll(Output("nsenter -t " + Pid(r) +
                             " --net --mount cat /sys/class/net/net0/statistics/tx_bytes")
                          .c_str());
  }

  std::array<std::unique_ptr<Child>, 2> ranks;
};

TEST_F(TwoNamespaces, EveryByteCrossesTheInterfaceAndTheProbeProvedIt) {
  EXPECT_EQ(
      ranks[0]->Ask("describe"),
      "ucx tcp/net0 (the only one up), probe seen in the interface's counters, 2 coder threads");
  EXPECT_EQ(ranks[1]->Ask("describe"),
            "ucx tcp/net0 (named), probe seen in the interface's counters, 2 coder threads");
  const int64_t before = TxBytes(0);
  ranks[1]->Tell("recv 1000000");
  EXPECT_EQ(ranks[0]->Ask("send 1000000"), "ok");
  EXPECT_EQ(ranks[1]->Answer(), "ok");
  const int64_t crossed = TxBytes(0) - before;
  EXPECT_GE(crossed, 4000000);
  // Headers of TCP and IP, acknowledgements, heartbeats; nothing is lost on a veth.
  EXPECT_LE(crossed, 4000000 * 1.1);
}

TEST_F(TwoNamespaces, ACutLinkEndsTransfersAtTheDeadline) {
  EXPECT_EQ(ranks[0]->Ask("flood 4000000"), "ok");
  EXPECT_EQ(ranks[1]->Ask("recv 4000000"), "ok");
  ASSERT_TRUE(In(0, "ip link set net0 down"));
  std::string answer;
  // What had arrived may still be received; then the silence counts.
  for (int i = 0; i < 20 && !answer.starts_with("error"); ++i)
    answer = ranks[1]->Ask("recv 4000000");
  EXPECT_THAT(answer, StartsWith("error: UNAVAILABLE"));
  EXPECT_THAT(answer, HasSubstr("silent for the deadline of 2s"));
}

}  // namespace
}  // namespace longhaul
