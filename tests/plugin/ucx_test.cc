// What only the ucx transport has: processes, silence, waiting without work, refused settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <thread>

#include "plugin/core/address.h"
#include "plugin/core/ucx/interfaces.h"
#include "tests/plugin/child.h"
#include "tests/plugin/group_fixture.h"
#include "tests/plugin/hex.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr absl::Duration kPeerDeadline = absl::Seconds(2);
// How long a verdict may take on a busy machine: far below UCX's own 25 s, far above the deadline.
constexpr absl::Duration kVerdict = absl::Seconds(15);

// Rank 0 here, rank 1 in a process of its own.
class TwoProcesses : public testing::Test {
 protected:
  void SetUp() override {
    NodeOptions options{.transport = TransportKind::kUcx, .interface = "lo"};
    options.peer_deadline = kPeerDeadline;
    node = Node::Create(options).value();
    const std::string there = child.Ask("open lo 2000");
    ASSERT_THAT(there, testing::Not(HasSubstr("error")));
    const std::string here = ToHex(node->address());
    child.Tell("join 1 " + here + " " + there);
    group = Group::Create(node, GroupOptions{.name = "test", .rank = 0, .size = 2},
                          {FromHex(here), FromHex(there)})
                .value();
    ASSERT_EQ(child.Answer(), "ok");
  }

  Child child;
  std::shared_ptr<Node> node;
  std::shared_ptr<Group> group;
};

TEST_F(TwoProcesses, BulkCrossesBothWays) {
  std::vector<float> x = Noise(4 << 20, 1), y(4 << 20);
  Outcome send, recv;
  child.Tell("recv 4194304");
  group->Send(F32(x), 1, 0, send.done());
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  EXPECT_EQ(child.Answer(), "ok");
  child.Tell("send 4194304");
  group->Recv(F32(y), 1, 0, recv.done());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
  EXPECT_EQ(child.Answer(), "ok");
  EXPECT_EQ(x, y);
  EXPECT_THAT(node->description(), StartsWith("ucx tcp/lo (named)"));
  EXPECT_THAT(node->description(), HasSubstr("cross lo"));
  EXPECT_EQ(node->traffic().refused_messages, 0);
}

TEST_F(TwoProcesses, AKilledPeerEndsTransfersOfBothDirections) {
  std::vector<float> in(4 << 20), out(4 << 20);
  Outcome first, second, send, later;
  ASSERT_EQ(child.Ask("flood 4194304"), "ok");
  group->Recv(F32(in), 1, 0, first.done());
  ASSERT_EQ(first.Wait(), absl::OkStatus());
  group->Recv(F32(in), 1, 0, second.done());
  group->Send(F32(out), 1, 1, send.done());  // never received there
  child.Kill();
  const absl::Status received = second.Wait(kVerdict);
  EXPECT_EQ(received.code(), absl::StatusCode::kUnavailable) << received;
  EXPECT_THAT(std::string(received.message()), HasSubstr("rank 1"));
  EXPECT_THAT(std::string(received.message()), HasSubstr("last byte seen"));
  EXPECT_EQ(send.Wait(kVerdict).code(), absl::StatusCode::kUnavailable);
  group->Send(F32(out), 1, 0, later.done());
  EXPECT_EQ(later.Wait(kVerdict).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.calls() + send.calls() + later.calls(), 3);
}

TEST_F(TwoProcesses, ASilentPeerIsDeadAfterItsDeadline) {
  std::vector<float> x(10);
  Outcome recv;
  child.Tell("recv 10");
  child.Signal(SIGSTOP);
  const absl::Duration stopped = MonotonicClock().Now();
  group->Recv(F32(x), 1, 0, recv.done());
  const absl::Status status = recv.Wait(kVerdict);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("silent for the deadline of 2s"));
  EXPECT_LT(MonotonicClock().Now() - stopped, kPeerDeadline + absl::Seconds(3));
  child.Signal(SIGCONT);  // too late: it is told so, and does not wait for ever
  EXPECT_THAT(child.Answer(), HasSubstr("error: UNAVAILABLE"));
}

TEST_F(TwoProcesses, AStoppedPeerThatGoesOnWithinTheDeadlineHeals) {
  std::vector<float> in(4 << 20), out = Noise(4 << 20, 1);
  Outcome first, second, send;
  child.Tell("recv 4194304");
  group->Send(F32(out), 1, 0, send.done());
  child.Signal(SIGSTOP);  // with bulk on its way
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(kPeerDeadline / 2));
  child.Signal(SIGCONT);
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  EXPECT_EQ(child.Answer(), "ok");
  ASSERT_EQ(child.Ask("flood 4194304"), "ok");
  group->Recv(F32(in), 1, 0, first.done());
  child.Signal(SIGSTOP);
  group->Recv(F32(in), 1, 0, second.done());
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(kPeerDeadline / 2));
  child.Signal(SIGCONT);
  EXPECT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_EQ(second.Wait(), absl::OkStatus());
  EXPECT_EQ(in, Noise(4 << 20, 1));
}

TEST_F(TwoProcesses, HeartbeatsKeepAnIdlePeerAlive) {
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(2 * kPeerDeadline));
  std::vector<float> x = Noise(10, 1);
  Outcome send;
  child.Tell("recv 10");
  group->Send(F32(x), 1, 0, send.done());
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  EXPECT_EQ(child.Answer(), "ok");
}

TEST_F(TwoProcesses, WaitingUsesNoCpu) {
  std::vector<float> x(10);
  Outcome recv;
  group->Recv(F32(x), 1, 0, recv.done());
  const auto cpu = [] {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration before = cpu();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  // A busy progress thread would use a second; CPU time does not depend on other processes.
  EXPECT_LT(cpu() - before, absl::Milliseconds(50));
  EXPECT_FALSE(recv.finished());
}

// Of another job, on the same network: it has the address, but not from the group's store.
TEST_F(TwoProcesses, WhoDoesNotKnowTheKeyIsLeftOutsideAndCounted) {
  NodeOptions options{.transport = TransportKind::kUcx, .interface = "lo"};
  const auto stranger = Node::Create(options).value();
  NodeAddress at = ParseAddress(node->address()).value();
  at.key[0] ^= std::byte{1};
  const auto outside =
      Group::Create(stranger, {.name = "other", .rank = 1, .size = 2, .timeout = absl::Seconds(1)},
                    {SerializeAddress(at).value(), stranger->address()});
  EXPECT_THAT(std::string(outside.status().message()), HasSubstr("did not answer in time"));
  EXPECT_EQ(node->traffic().refused_strangers, 1);
  std::vector<float> x = Noise(10, 1);
  Outcome send;
  child.Tell("recv 10");
  group->Send(F32(x), 1, 0, send.done());
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  EXPECT_EQ(child.Answer(), "ok");
}

TEST(UcxOptions, AnUnknownInterfaceIsRefusedWithTheListOfThoseThereAre) {
  const auto node =
      Node::Create(NodeOptions{.transport = TransportKind::kUcx, .interface = "nosuch0"});
  EXPECT_EQ(node.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("no interface 'nosuch0'"));
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("lo"));
}

TEST(UcxOptions, SettingsFromTheEnvironmentAreRefusedByName) {
  ::setenv("UCX_TLS", "sm", 1);
  NodeOptions options{.transport = TransportKind::kUcx, .interface = "lo"};
  const auto node = Node::Create(options);
  EXPECT_EQ(node.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("UCX_TLS"));
  EXPECT_THAT(std::string(node.status().message()),
              HasSubstr("longhaul.Options(ucx_environment=True)"));
  options.ucx_environment = NodeOptions::UcxEnvironment::kAllowed;
  EXPECT_TRUE(Node::Create(options).ok());
  ::unsetenv("UCX_TLS");
}

TEST(UcxOptions, VariablesThatChangeNoByteOnTheWirePass) {
  const char* const harmless[] = {
      "UCX_LOG_LEVEL_TRIGGER", "UCX_WARN_UNUSED_ENV_VARS", "UCX_MODULE_LOG_LEVEL",
      "UCX_HANDLE_ERRORS",     "UCX_ERROR_SIGNALS",        "UCX_ERROR_MAIL_TO",
      "UCX_DEBUG_SIGNO",       "UCX_GDB_COMMAND",          "UCX_STATS_DEST",
      "UCX_MEMTRACK_DEST",     "UCX_PROFILE_MODE",         "UCX_VFS_ENABLE",
      "UCX_MEM_EVENTS",        "UCX_MEMTYPE_CACHE",        "UCX_RCACHE_ENABLE",
      "UCX_IB_GID_INDEX",      "UCX_CUDA_COPY_BW",         "UCX_POSIX_DIR"};
  for (const char* name : harmless) ::setenv(name, "n", 1);
  EXPECT_THAT(UcxVariables(), testing::IsEmpty());
  // Of the same kinds by their names, and not harmless.
  for (const char* name : {"UCX_TCP_KEEPIDLE", "UCX_TLS", "UCX_LOG", "UCX_NET_DEVICES",
                           "UCX_MODULE_DIR", "UCX_MEM", "UCX_KEEPIDLE"}) {
    ::setenv(name, "n", 1);
    EXPECT_THAT(UcxVariables(), testing::ElementsAre(name));
    ::unsetenv(name);
  }
  for (const char* name : harmless) ::unsetenv(name);
}

TEST(UcxOptions, ARankThatDoesNotAnswerIsNamedByCreate) {
  NodeOptions options{.transport = TransportKind::kUcx, .interface = "lo"};
  options.peer_deadline = absl::Seconds(1);
  const auto node = Node::Create(options).value();
  std::string gone;
  {
    Child child;
    gone = FromHex(child.Ask("open lo 1000"));
  }
  const auto group = Group::Create(node, GroupOptions{.name = "test", .rank = 0, .size = 2},
                                   {node->address(), gone});
  EXPECT_FALSE(group.ok());
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace longhaul
