// Tensors between ranks of one process: what crosses without a transport, and that nothing tells it
// from what goes through one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "compressors/kernels/convert.h"
#include "plugin/core/packet.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class Post { kBeforeSend, kAfterSend };

// One message after the other from rank 0 to 1, and what both ranks counted.
struct Sent {
  std::vector<std::vector<std::byte>> received;
  CrossingCounters out, in;
};

CrossingCounters RowOf(const Group& group, bool sent) {
  for (const CrossingCounters& row : TotalsByPeer(group.counters())) {
    if (row.sent == sent) return row;
  }
  return {};
}

std::vector<std::byte> Values(ElementType type, size_t elements, uint64_t seed) {
  const std::vector<float> noise = Noise(elements, seed);
  std::vector<std::byte> bytes(elements * BytesPerElement(type));
  for (size_t i = 0; i < elements; ++i) {
    StoreElement(noise[i], bytes.data(), static_cast<DType>(type), i);
  }
  return bytes;
}

Sent SendSome(TransportKind transport, Post post, const std::string& codec, ElementType type,
              std::vector<int64_t> dims) {
  constexpr int kMessages = 3;
  const Cluster cluster(transport, 2);
  const auto group = cluster.MakeGroup("pp", [&](GroupOptions& options) {
    options.codecs.forward = codec;
    options.seed = 7;
    options.nmse_every = 2;
  });
  Sent sent;
  for (int i = 0; i < kMessages; ++i) {
    WireTensor x{.values = nullptr, .type = type, .dims = dims}, y = x;
    std::vector<std::byte> from = Values(type, static_cast<size_t>(x.elements()), 1 + i);
    std::vector<std::byte> to(from.size());
    x.values = from.data();
    y.values = to.data();
    Outcome send, recv;
    if (post == Post::kBeforeSend) group[1]->Recv(y, 0, 5, recv.done());
    group[0]->Send(x, 1, 5, send.done());
    if (post == Post::kAfterSend) group[1]->Recv(y, 0, 5, recv.done());
    EXPECT_EQ(send.Wait(), absl::OkStatus());
    EXPECT_EQ(recv.Wait(), absl::OkStatus());
    sent.received.push_back(std::move(to));
  }
  sent.out = RowOf(*group[0], true);
  sent.in = RowOf(*group[1], false);
  return sent;
}

TEST(Crossing, IsWhatPacketsWouldHaveBeenInEveryCodecDtypeAndLength) {
  const std::vector<std::vector<int64_t>> shapes = {{4100}, {96, 64}, {3, 50, 640}, {1100, 640}};
  for (const char* codec :
       {"none", "int4-b64-h64", "int8-b64", "int8-b64+sr", "fp16", "topk-64of4096+fp16"}) {
    for (const ElementType type : {ElementType::kF32, ElementType::kBF16}) {
      for (const auto& shape : shapes) {
        SCOPED_TRACE(std::string(codec) + " " +
                     ToString(WireTensor{.values = nullptr, .type = type, .dims = shape}));
        const Sent crossed =
            SendSome(TransportKind::kLoopback, Post::kBeforeSend, codec, type, shape);
        EXPECT_EQ(crossed.out.crossed_tensors, 3);
        EXPECT_EQ(crossed.in.crossed_tensors, 3);
        for (const TransportKind transport : AllTransports()) {
          const Sent packets = SendSome(transport, Post::kAfterSend, codec, type, shape);
          EXPECT_EQ(packets.out.crossed_tensors, 0);
          EXPECT_EQ(packets.in.crossed_tensors, 0);
          EXPECT_EQ(crossed.received, packets.received);
          for (const auto& [a, b] :
               {std::pair{&crossed.out, &packets.out}, std::pair{&crossed.in, &packets.in}}) {
            EXPECT_EQ(a->codec, b->codec);
            EXPECT_EQ(a->tensors, b->tensors);
            EXPECT_EQ(a->elements, b->elements);
            EXPECT_EQ(a->payload_bytes, b->payload_bytes);
            EXPECT_EQ(a->message_bytes, b->message_bytes);
            EXPECT_EQ(a->payload_hash, b->payload_hash);
            EXPECT_EQ(a->nmse_samples, b->nmse_samples);
            EXPECT_EQ(a->nmse_sum, b->nmse_sum);
            EXPECT_EQ(a->nmse_max, b->nmse_max);
          }
          EXPECT_EQ(crossed.out.nmse_samples, std::string(codec) == "none" ? 0 : 2);
        }
      }
    }
  }
}

// Rank 0 sends, rank 1 has posted a receive of that; how both ended.
struct Ends {
  absl::Status send, recv;
};
Ends SendInto(Group& from, Group& to, const WireTensor& x, const WireTensor& y) {
  Outcome send, recv;
  to.Recv(y, 0, 0, recv.done());
  from.Send(x, 1, 0, send.done());
  return {send.Wait(), recv.Wait()};
}

class ByPackets : public testing::Test {
 protected:
  int64_t crossed() const { return RowOf(*group[1], false).crossed_tensors; }
  void ExpectTheNextToCross() {
    const int64_t before = crossed();
    std::vector<float> to(x.size());
    const Ends ends = SendInto(*group[0], *group[1], F32(x), F32(to));
    EXPECT_EQ(ends.send, absl::OkStatus());
    EXPECT_EQ(ends.recv, absl::OkStatus());
    EXPECT_EQ(crossed(), before + 1);
  }

  const Cluster cluster{TransportKind::kLoopback, 2};
  const std::vector<std::shared_ptr<Group>> group =
      cluster.MakeGroup("pp", [](GroupOptions& options) { options.codecs.forward = "int8-b64"; });
  std::vector<float> x = Noise(8192, 1), y = std::vector<float>(8192);
};

TEST_F(ByPackets, ATensorThatDoesNotFitFailsInTheWordsOfTheTransport) {
  std::vector<float> shorter(8000);
  Ends ends = SendInto(*group[0], *group[1], F32(x), F32(shorter));
  EXPECT_EQ(ends.send, absl::OkStatus());
  EXPECT_EQ(ends.recv.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ends.recv.message()),
              AllOf(HasSubstr("from rank 0, sequence 0"),
                    HasSubstr("rank 1 posted f32[8000], rank 0 sent f32[8192]")));
  ends = SendInto(*group[0], *group[1], F32(x), Tensor1D(y, ElementType::kI32));
  EXPECT_THAT(std::string(ends.recv.message()),
              HasSubstr("rank 1 posted i32[8192], rank 0 sent f32[8192]"));
  EXPECT_EQ(crossed(), 0);
  ExpectTheNextToCross();
}

TEST_F(ByPackets, NaNIsRefusedAtBothEndsAndTheChannelGoesOn) {
  x[17] = NAN;
  const Ends ends = SendInto(*group[0], *group[1], F32(x), F32(y));
  EXPECT_EQ(ends.send.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ends.send.message()),
              AllOf(HasSubstr("send of f32[8192] from rank 0 to rank 1 of group 'pp', tag 0"),
                    HasSubstr("NaN")));
  EXPECT_EQ(ends.recv.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(ends.recv.message()), HasSubstr("rank 0 gave it up: "));
  x[17] = 0;
  ExpectTheNextToCross();
}

TEST_F(ByPackets, AReceiveOfAnyRankAndASendThatIsToldWhatArrives) {
  Outcome any, send;
  group[1]->RecvAny(F32(y), 0, any.done_from());
  group[0]->Send(F32(x), 1, 0, send.done());
  ASSERT_EQ(send.Wait(), absl::OkStatus());
  ASSERT_EQ(any.Wait(), absl::OkStatus());
  EXPECT_EQ(any.source(), 0);
  std::vector<float> told(x.size());
  Outcome recv, again;
  group[1]->Recv(F32(y), 0, 0, recv.done());
  group[0]->SendDecoded(F32(x), told.data(), 1, 0, again.done());
  ASSERT_EQ(again.Wait(), absl::OkStatus());
  ASSERT_EQ(recv.Wait(), absl::OkStatus());
  EXPECT_EQ(told, y);
  EXPECT_EQ(crossed(), 0);
  ExpectTheNextToCross();
}

TEST_F(ByPackets, WhatWasSentBeforeItsReceiveIsTakenFirst) {
  std::vector<float> second = Noise(8192, 2), first_to(8192), second_to(8192);
  Outcome sends[2], recvs[2];
  group[0]->Send(F32(x), 1, 0, sends[0].done());
  group[1]->Recv(F32(first_to), 0, 0, recvs[0].done());
  group[1]->Recv(F32(second_to), 0, 0, recvs[1].done());
  group[0]->Send(F32(second), 1, 0, sends[1].done());
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(sends[i].Wait(), absl::OkStatus());
    ASSERT_EQ(recvs[i].Wait(), absl::OkStatus());
  }
  EXPECT_EQ(crossed(), 1);
  EXPECT_NEAR(first_to[5], x[5], 0.1);
  EXPECT_NEAR(second_to[5], second[5], 0.1);
}

TEST(Crossing, CodecsWithAStateAndNodesWithCodersTakePackets) {
  const Cluster inline_nodes(TransportKind::kLoopback, 2);
  const Cluster coded(TransportKind::kLoopback, 2,
                      [](NodeOptions& options) { options.coder_threads = 1; });
  std::vector<float> x = Noise(8192, 1), y(8192);
  for (const auto& [cluster, codec] :
       {std::pair{&inline_nodes, "int8-b64+ef"}, std::pair{&inline_nodes, "aqsgd4"},
        std::pair{&coded, "int8-b64"}}) {
    const auto group =
        cluster->MakeGroup(codec, [&](GroupOptions& options) { options.codecs.forward = codec; });
    const Ends ends = SendInto(*group[0], *group[1], F32(x), F32(y));
    EXPECT_EQ(ends.send, absl::OkStatus());
    EXPECT_EQ(ends.recv, absl::OkStatus());
    EXPECT_EQ(RowOf(*group[1], false).tensors, 1);
    EXPECT_EQ(RowOf(*group[1], false).crossed_tensors, 0) << codec;
  }
}

TEST(Crossing, OneTensorForBothEndsIsLeftAsItIs) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto group = cluster.MakeGroup("pp");
  std::vector<float> x = Noise(8192, 1);
  const std::vector<float> before = x;
  const Ends ends = SendInto(*group[0], *group[1], F32(x), F32(x));
  EXPECT_EQ(ends.send, absl::OkStatus());
  EXPECT_EQ(ends.recv, absl::OkStatus());
  EXPECT_EQ(x, before);
  EXPECT_EQ(RowOf(*group[0], true).crossed_tensors, 1);
}

// A thread for each end: some find the other's strand taken and go as packets.
TEST(Crossing, OrderHoldsWhereCrossingsAndPacketsMix) {
  constexpr int kMessages = 2000;
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto group = cluster.MakeGroup("pp");
  std::vector<std::vector<float>> from[2], to[2];
  for (int rank : {0, 1}) {
    for (int i = 0; i < kMessages; ++i) {
      from[rank].push_back({static_cast<float>(i), static_cast<float>(rank)});
      to[rank].push_back({-1, -1});
    }
  }
  const auto run = [&](int rank) {
    std::vector<Outcome> sends(kMessages), recvs(kMessages);
    for (int i = 0; i < kMessages; ++i) {
      group[rank]->Recv(F32(to[rank][i]), 1 - rank, 3, recvs[i].done());
      group[rank]->Send(F32(from[rank][i]), 1 - rank, 3, sends[i].done());
    }
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_EQ(sends[i].Wait(), absl::OkStatus());
      ASSERT_EQ(recvs[i].Wait(), absl::OkStatus());
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  for (int rank : {0, 1}) {
    EXPECT_EQ(to[rank], from[1 - rank]);
    EXPECT_EQ(RowOf(*group[rank], false).tensors, kMessages);
  }
}

TEST(Crossing, NodesCountItLikeAMessage) {
  const auto traffic = [](Post post) {
    const Cluster cluster(TransportKind::kLoopback, 2);
    const auto group = cluster.MakeGroup("pp");
    const NodeTraffic sent = cluster.nodes[0]->traffic(), got = cluster.nodes[1]->traffic();
    std::vector<float> x = Noise(100'000, 1), y(100'000);
    Outcome send, recv;
    if (post == Post::kBeforeSend) group[1]->Recv(F32(y), 0, 0, recv.done());
    group[0]->Send(F32(x), 1, 0, send.done());
    if (post == Post::kAfterSend) group[1]->Recv(F32(y), 0, 0, recv.done());
    EXPECT_EQ(send.Wait(), absl::OkStatus());
    EXPECT_EQ(recv.Wait(), absl::OkStatus());
    const NodeTraffic after = cluster.nodes[0]->traffic(), then = cluster.nodes[1]->traffic();
    return std::vector{after.sent_bytes - sent.sent_bytes, after.sent_messages - sent.sent_messages,
                       then.received_bytes - got.received_bytes,
                       then.received_messages - got.received_messages};
  };
  EXPECT_EQ(traffic(Post::kBeforeSend), traffic(Post::kAfterSend));
  EXPECT_EQ(traffic(Post::kBeforeSend)[0], 400'000 + 2 * 112);
}

}  // namespace
}  // namespace longhaul
