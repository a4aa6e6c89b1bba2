// Credits and traffic, over every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "plugin/core/packet.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

class Flow : public testing::TestWithParam<TransportKind> {};

constexpr int64_t kWindow = 1 << 20;
void SmallWindow(NodeOptions& options) { options.credit_bytes = kWindow; }

TEST_P(Flow, CreditsBoundWhatIsHeldAndLetWantedMessagesThrough) {
  const Cluster cluster(GetParam(), 2, SmallWindow);
  const auto group = cluster.MakeGroup("credit");
  constexpr size_t kFlood = 40, kCount = 50000;  // 8 MB against a window of 1 MB
  std::vector<std::vector<float>> sent, got(kFlood, std::vector<float>(kCount));
  std::vector<Outcome> sends(kFlood), recvs(kFlood);
  const int64_t before = cluster.nodes[1]->traffic().received_bytes;
  for (size_t i = 0; i < kFlood; ++i) {
    sent.push_back(Noise(kCount, i));
    group[0]->Send(F32(sent[i]), 1, 0, sends[i].done());
  }
  // Behind the flood on another tag, small and big; the receiver asks for these first.
  std::vector<float> small = Noise(100, 99), big = Noise(3 << 20, 98), small_out(100),
                     big_out(3 << 20);
  Outcome small_send, big_send, small_recv, big_recv;
  group[0]->Send(F32(small), 1, 1, small_send.done());
  group[0]->Send(F32(big), 1, 2, big_send.done());
  ASSERT_EQ(sends[0].Wait(), absl::OkStatus());
  group[1]->Recv(F32(small_out), 0, 1, small_recv.done());
  ASSERT_EQ(small_recv.Wait(), absl::OkStatus());
  EXPECT_EQ(small_out, small);
  EXPECT_FALSE(sends[kFlood - 1].finished());
  // 64 kB for hello and the like.
  EXPECT_LE(cluster.nodes[1]->traffic().received_bytes - before, kWindow + (64 << 10));
  group[1]->Recv(F32(big_out), 0, 2, big_recv.done());
  ASSERT_EQ(big_recv.Wait(), absl::OkStatus());
  EXPECT_EQ(big_out, big);
  for (size_t i = 0; i < kFlood; ++i) group[1]->Recv(F32(got[i]), 0, 0, recvs[i].done());
  for (size_t i = 0; i < kFlood; ++i) {
    ASSERT_EQ(recvs[i].Wait(), absl::OkStatus());
    ASSERT_EQ(sends[i].Wait(), absl::OkStatus());
    ASSERT_EQ(got[i], sent[i]);
  }
}

TEST_P(Flow, ReceiveAnyTakesMessagesBiggerThanTheCredit) {
  const Cluster cluster(GetParam(), 2, SmallWindow);
  const auto group = cluster.MakeGroup("any");
  std::vector<float> x = Noise(1 << 20, 1), y(1 << 20);
  for (const bool posted_first : {true, false}) {
    Outcome send, recv;
    if (posted_first) group[1]->RecvAny(F32(y), 0, recv.done_from());
    group[0]->Send(F32(x), 1, 0, send.done());
    if (!posted_first) group[1]->RecvAny(F32(y), 0, recv.done_from());
    ASSERT_EQ(recv.Wait(), absl::OkStatus());
    EXPECT_EQ(recv.source(), 0);
    ASSERT_EQ(x, y);
  }
}

TEST_P(Flow, OneAnotherInBothDirectionsAtOnce) {
  const Cluster cluster(GetParam(), 2, SmallWindow);
  const auto group = cluster.MakeGroup("both");
  constexpr size_t kMessages = 200;
  std::vector<Outcome> outcomes(4 * kMessages);
  std::vector<std::vector<float>> sent, got;
  for (size_t i = 0; i < 2 * kMessages; ++i) {
    sent.push_back(Noise(i % 10 == 0 ? 100000 : 50, i));
    got.emplace_back(sent.back().size());
  }
  // One thread per rank, sends and receives in different orders.
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      for (size_t i = 0; i < kMessages; ++i) {
        const size_t out = 2 * i + r, in = 2 * i + (1 - r);
        const auto tag = static_cast<int>(i % 3);
        group[r]->Send(F32(sent[out]), static_cast<int>(1 - r), tag, outcomes[2 * out].done());
        group[r]->Recv(F32(got[in]), static_cast<int>(1 - r), tag, outcomes[2 * in + 1].done());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
  for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.calls(), 1);
  EXPECT_EQ(sent, got);
}

TEST_P(Flow, TrafficCountsBothEndsAlike) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("traffic");
  const NodeTraffic before = cluster.nodes[0]->traffic();
  std::vector<float> x = Noise(100000, 1), y(100000);
  Outcome send, recv;
  group[0]->Send(F32(x), 1, 0, send.done());
  group[1]->Recv(F32(y), 0, 0, recv.done());
  ASSERT_EQ(send.Wait(), absl::OkStatus());
  ASSERT_EQ(recv.Wait(), absl::OkStatus());
  const NodeTraffic after = cluster.nodes[0]->traffic();
  const auto two_packets = static_cast<int64_t>(400000 + 2 * kPacketHeaderBytes);
  EXPECT_GE(after.sent_bytes - before.sent_bytes, two_packets);
  EXPECT_GE(cluster.nodes[1]->traffic().received_bytes, two_packets);
  EXPECT_EQ(cluster.nodes[0]->traffic().refused_messages, 0);
  EXPECT_EQ(cluster.nodes[1]->traffic().refused_messages, 0);
  EXPECT_FALSE(cluster.nodes[0]->description().empty());
}

INSTANTIATE_TEST_SUITE_P(Transports, Flow, testing::ValuesIn(AllTransports()), TransportName);

}  // namespace
}  // namespace longhaul
