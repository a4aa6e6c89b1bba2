// Deadlines on a clock that the test moves: when operations expire, when a peer is dead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/plugin/rigged_transport.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using Heartbeat = RiggedTransport::Heartbeat;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

constexpr int kRanks = 4;
constexpr size_t kCount = 10'000;  // beyond the small allreduce

// Collectives that a rank begins and the others do not.
class LonelyCollective : public testing::TestWithParam<std::string> {
 protected:
  void Begin(Group& group, std::vector<float>& x, std::vector<float>& all, Group::Done done) const {
    if (GetParam() == "AllReduce") return group.AllReduce(F32(x), ReduceOp::kSum, std::move(done));
    if (GetParam() == "AllGather") return group.AllGather(F32(x), F32(all), std::move(done));
    if (GetParam() == "Broadcast") return group.Broadcast(F32(x), 1, std::move(done));
    group.Barrier(std::move(done));
  }
};

TEST_P(LonelyCollective, ExpiresOnceOnEveryRankAndTheNextOneWorks) {
  RiggedCluster cluster(kRanks);
  const auto group = cluster.MakeGroup(
      "lonely", [](GroupOptions& options) { options.timeout = absl::Seconds(10); });
  std::array<std::vector<float>, kRanks> x, all;
  std::array<Outcome, kRanks> first, second;
  for (auto& values : x) values = Noise(kCount, 1);
  for (auto& values : all) values.resize(kRanks * kCount);
  Begin(*group[0], x[0], all[0], first[0].done());
  cluster.Pass(absl::Milliseconds(9999), 3);
  EXPECT_FALSE(first[0].finished()) << "a millisecond is left";
  cluster.Pass(absl::Milliseconds(1), 1);
  ASSERT_TRUE(first[0].finished());
  EXPECT_EQ(first[0].Wait().code(), absl::StatusCode::kDeadlineExceeded);
  // In the tree of the broadcast rank 3 hands rank 1's values to rank 0, if it gets them.
  const std::string missing =
      std::string(GetParam() == "Broadcast" ? "ranks 1, 2" : "ranks 1, 2, 3") +
      " did not come to it within the timeout of 10s";
  EXPECT_THAT(Text(first[0].Wait()), HasSubstr(missing));
  for (size_t rank = 1; rank < kRanks; ++rank) {
    Begin(*group[rank], x[rank], all[rank], first[rank].done());
    EXPECT_EQ(first[rank].Wait().code(), absl::StatusCode::kDeadlineExceeded) << rank;
    EXPECT_THAT(Text(first[rank].Wait()), HasSubstr(missing));
  }
  for (size_t rank = 0; rank < kRanks; ++rank) {
    Begin(*group[rank], x[rank], all[rank], second[rank].done());
  }
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(second[rank].Wait(), absl::OkStatus());
    EXPECT_EQ(first[rank].calls(), 1);
    EXPECT_EQ(second[rank].calls(), 1);
    EXPECT_TRUE(group[rank]->SaveState().ok()) << "nothing is outstanding";
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, LonelyCollective,
                         testing::Values("AllReduce", "AllGather", "Broadcast", "Barrier"),
                         [](const auto& info) { return info.param; });

TEST(Deadlines, OneOfSeveralOverdueReceivesMayEndTheOthersFromItsCallback) {
  RiggedCluster cluster(3);
  auto group = cluster.MakeGroup(
      "chain", [](GroupOptions& options) { options.timeout = absl::Seconds(10); });
  std::vector<std::vector<float>> x(6, std::vector<float>(10));
  std::array<Outcome, 6> outcome;
  for (int i = 0; i < 6; ++i) {
    group[0]->Recv(F32(x[static_cast<size_t>(i)]), 1 + i % 2, i,
                   [&, done = outcome[static_cast<size_t>(i)].done()](absl::Status status) {
                     group[0]->Abort(absl::CancelledError("enough"));
                     done(std::move(status));
                   });
  }
  cluster.Pass(absl::Seconds(10), 1);
  for (const Outcome& each : outcome) {
    EXPECT_FALSE(each.Wait().ok());
    EXPECT_EQ(each.calls(), 1);
  }
}

// Two nodes that watch each other: rank 0's view of rank 1. A beat every 2 s.
class PeerDeadline : public testing::Test {
 protected:
  static constexpr absl::Duration kDeadline = absl::Seconds(10);

  PeerDeadline() { group[0]->Recv(F32(y), 1, 0, recv.done()); }

  RiggedCluster cluster{2, Heartbeat::kOn,
                        [](NodeOptions& options) { options.peer_deadline = kDeadline; }};
  std::vector<std::shared_ptr<Group>> group = cluster.MakeGroup("watched");
  std::vector<float> x = Noise(10, 1), y = std::vector<float>(10);
  Outcome recv, send;
};

TEST_F(PeerDeadline, BeatsKeepAnIdlePeerAlive) {
  cluster.Pass(absl::Seconds(100), 100);
  EXPECT_FALSE(recv.finished());
  group[1]->Send(F32(x), 0, 0, send.done());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
}

TEST_F(PeerDeadline, ASilentPeerIsLostAfterTheDeadlineAndOneBeatAtMost) {
  cluster.Pass(absl::Seconds(20), 20);
  cluster.wires[1]->on_packet = [](const PacketHeader&, std::span<std::byte>) { return false; };
  cluster.Pass(kDeadline, 10);
  EXPECT_FALSE(recv.finished()) << "silent for the deadline, not longer";
  cluster.Pass(absl::Seconds(2), 2);
  ASSERT_TRUE(recv.finished());
  EXPECT_EQ(recv.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(recv.Wait()), HasSubstr("silent for the deadline of 10s"));
}

TEST_F(PeerDeadline, APeerThatStandsStillForFourFifthsOfItHeals) {
  cluster.Pass(absl::Seconds(20), 20);
  for (int second = 0; second < 8; ++second) {  // only rank 0 runs
    cluster.clock.Advance(absl::Seconds(1));
    cluster.wires[0]->Tick();
  }
  cluster.Pass(absl::Seconds(100), 100);
  EXPECT_FALSE(recv.finished());
  group[1]->Send(F32(x), 0, 0, send.done());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
  EXPECT_EQ(y, x);
}

TEST_F(PeerDeadline, APeerThatBeatsButTakesNothingIsLost) {
  cluster.wires[0]->on_packet = [](const PacketHeader& header, std::span<std::byte>) {
    return header.kind != PacketKind::kData;
  };
  group[0]->Send(F32(x), 1, 0, send.done());
  cluster.Pass(kDeadline, 10);
  EXPECT_FALSE(recv.finished());
  cluster.Pass(absl::Seconds(4), 4);
  ASSERT_TRUE(recv.finished());
  EXPECT_THAT(Text(recv.Wait()), HasSubstr("took 0 of 152 bytes sent and no more"));
}

TEST_F(PeerDeadline, AProcessThatWasItselfStoppedGivesItsPeersOneMoreBeat) {
  cluster.Pass(absl::Seconds(20), 20);
  cluster.clock.Advance(absl::Seconds(300));
  cluster.wires[0]->Tick();
  EXPECT_FALSE(recv.finished()) << "what they said meanwhile has not been read yet";
  cluster.Pass(absl::Seconds(20), 20);
  EXPECT_FALSE(recv.finished());
}

// Rank 0 waits 100 s and rank 1 ten: rank 0 beats as often as rank 1 wants to hear of it.
TEST(PeerDeadlines, ThatDifferKeepIdlePeersAlive) {
  RiggedCluster cluster(2, Heartbeat::kOn, [rank = 0](NodeOptions& options) mutable {
    options.peer_deadline = absl::Seconds(rank++ == 0 ? 100 : 10);
  });
  const auto group = cluster.MakeGroup("unequal");
  std::vector<float> x = Noise(10, 1), y(10);
  Outcome recv, send;
  group[1]->Recv(F32(y), 0, 0, recv.done());
  cluster.Pass(absl::Seconds(200), 200);
  EXPECT_FALSE(recv.finished());
  group[0]->Send(F32(x), 1, 0, send.done());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
}

TEST(NoPeerDeadline, ASilentPeerIsWaitedForAndTheOperationEndsAtItsTimeout) {
  RiggedCluster cluster(2, Heartbeat::kOn, [](NodeOptions& options) {
    options.peer_deadline = absl::InfiniteDuration();
  });
  const auto group = cluster.MakeGroup(
      "patient", [](GroupOptions& options) { options.timeout = absl::Hours(24 * 30); });
  std::vector<float> x = Noise(10, 1), y(10), z(10);
  Outcome recv, late, send;
  group[0]->Recv(F32(y), 1, 0, recv.done());
  int beats = 0;
  cluster.wires[1]->on_packet = [&](const PacketHeader& header, std::span<std::byte>) {
    beats += header.kind == PacketKind::kHeartbeat;
    return false;
  };
  cluster.Pass(absl::Hours(24 * 20), 100);
  EXPECT_FALSE(recv.finished());
  EXPECT_GT(beats, 90) << "it still says that it is there";
  cluster.wires[1]->on_packet = nullptr;
  group[1]->Send(F32(x), 0, 0, send.done());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
  EXPECT_EQ(y, x);
  group[0]->Recv(F32(z), 1, 0, late.done());
  cluster.Pass(absl::Hours(24 * 30) + absl::Seconds(1), 3);
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace longhaul
