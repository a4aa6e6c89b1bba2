// What arrives is what was sent, or an error: damage on the way, hashes of what crossed, noise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/numbers/noise.h"
#include "tests/plugin/rigged_transport.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr size_t kCount = 100'000;  // two packets of raw values

class DamagedLink : public testing::TestWithParam<std::string> {};

TEST_P(DamagedLink, OneFlippedBitIsDataLossAndTheNextMessageIsWhole) {
  RiggedCluster cluster(2);
  const auto group = cluster.MakeGroup(
      "damaged", [](GroupOptions& options) { options.codecs.forward = GetParam(); });
  std::vector<float> x = Noise(kCount, 1), y(kCount), z(kCount);
  for (const bool posted : {true, false}) {  // decoded on arrival, and out of what was held
    Outcome damaged, whole, sends[2];
    int packets = 0;
    cluster.wires[0]->on_packet = [&](const PacketHeader& header, std::span<std::byte> payload) {
      const bool last = header.offset + header.payload_bytes == header.message_bytes;
      if (header.kind == PacketKind::kData && last && packets++ == 0) {
        payload.back() ^= std::byte{0x01};
      }
      return true;
    };
    if (posted) group[1]->Recv(F32(y), 0, 0, damaged.done());
    group[0]->Send(F32(x), 1, 0, sends[0].done());
    if (!posted) group[1]->Recv(F32(y), 0, 0, damaged.done());
    ASSERT_EQ(packets, 1);
    EXPECT_EQ(damaged.Wait().code(), absl::StatusCode::kDataLoss) << damaged.Wait();
    EXPECT_THAT(std::string(damaged.Wait().message()), HasSubstr("payload checksum"));
    group[0]->Send(F32(x), 1, 0, sends[1].done());
    group[1]->Recv(F32(z), 0, 0, whole.done());
    EXPECT_EQ(whole.Wait(), absl::OkStatus());
    if (GetParam() == "none") {
      EXPECT_EQ(z, x);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Payloads, DamagedLink, testing::Values("none", "int8-b64"),
                         [](const auto& info) {
                           return info.param == "none" ? "RawValues" : "CodecFrame";
                         });

TEST(LossyLink, ALostMessageIsNotReplacedByTheNextOne) {
  RiggedCluster cluster(2);
  const auto group = cluster.MakeGroup("gap");
  std::vector<float> first(10, 1.0f), second(10, 2.0f), y(10);
  Outcome sends[2], recv;
  group[1]->Recv(F32(y), 0, 0, recv.done());
  cluster.wires[0]->on_packet = [](const PacketHeader& header, std::span<std::byte>) {
    return header.kind != PacketKind::kData || header.sequence != 0;
  };
  group[0]->Send(F32(first), 1, 0, sends[0].done());
  group[0]->Send(F32(second), 1, 0, sends[1].done());
  EXPECT_FALSE(recv.Wait().ok());
  EXPECT_THAT(std::string(recv.Wait().message()), HasSubstr("came where 0 was due"));
  EXPECT_EQ(y, std::vector<float>(10));
  cluster.nodes[0]->Abort(absl::CancelledError("its peer listens no more"));
}

// Rank 0's and rank 1's hash after these tensors went from 0 to 1 on these tags.
std::pair<uint64_t, uint64_t> HashesAfter(const std::vector<std::vector<float>>& tensors,
                                          const std::vector<int>& tags) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto group = cluster.MakeGroup("hash");
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> x = tensors[i], y(x.size());
    Outcome send, recv;
    group[0]->Send(F32(x), 1, tags[i], send.done());
    group[1]->Recv(F32(y), 0, tags[i], recv.done());
    EXPECT_EQ(recv.Wait(), absl::OkStatus());
  }
  const auto hash = [](const Group& g, bool sent) {
    for (const CrossingCounters& row : TotalsByPeer(g.counters())) {
      if (row.sent == sent) return row.payload_hash;
    }
    return uint64_t{0};
  };
  return {hash(*group[0], true), hash(*group[1], false)};
}

TEST(PayloadHash, TellsContentOrderTagAndLengthApartAndIsEqualOnBothEnds) {
  const std::vector<float> a = Noise(1000, 1), b = Noise(1000, 2);
  std::vector<float> bit = a;
  bit[500] = std::nextafter(bit[500], 2.0f);
  std::vector<float> shorter(a.begin(), a.end() - 1);
  std::set<uint64_t> seen;
  const auto expect_new = [&](const std::vector<std::vector<float>>& tensors,
                              const std::vector<int>& tags) {
    const auto [sent, received] = HashesAfter(tensors, tags);
    EXPECT_EQ(sent, received);
    EXPECT_TRUE(seen.insert(sent).second) << "case " << seen.size();
  };
  expect_new({a, b}, {0, 0});
  expect_new({b, a}, {0, 0});
  expect_new({bit, b}, {0, 0});
  expect_new({a, b}, {0, 1});
  expect_new({shorter, b}, {0, 0});
  EXPECT_EQ(HashesAfter({a, b}, {0, 0}), HashesAfter({a, b}, {0, 0}));
}

TEST(Noise, OfEveryFrameIsThatOfItsSeedSequenceSourceAndTag) {
  constexpr const char* kCodec = "int4-b64+sr";
  const auto codec = MakeCodec(kCodec).value();
  const std::vector<float> x = Noise(8192, 1);
  std::set<std::vector<float>> seen;
  for (const uint64_t seed : {7u, 8u}) {
    const Cluster cluster(TransportKind::kLoopback, 2);
    const auto group = cluster.MakeGroup("noise", [&](GroupOptions& options) {
      options.codecs.forward = options.codecs.backward = kCodec;
      options.seed = seed;
    });
    for (const int source : {0, 1}) {
      for (const int tag : {0, 3}) {
        for (uint64_t sequence = 0; sequence < 3; ++sequence) {
          std::vector<float> in = x, out(x.size()), want(x.size());
          Outcome send, recv;
          group[static_cast<size_t>(source)]->Send(F32(in), 1 - source, tag, send.done());
          group[static_cast<size_t>(1 - source)]->Recv(F32(out), source, tag, recv.done());
          ASSERT_EQ(recv.Wait(), absl::OkStatus());
          const Shape shape{.rows = 1, .cols = x.size()};
          std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
          const uint64_t noise =
              FoldSeed({seed, sequence, static_cast<uint64_t>(source), static_cast<uint64_t>(tag)});
          const auto bytes = codec->Encode({x.data(), DType::kF32, shape}, noise, nullptr, frame);
          ASSERT_TRUE(bytes.ok()) << bytes.status();
          frame.resize(*bytes);
          ASSERT_TRUE(DecodeFrame(frame, {want.data(), DType::kF32, shape}).ok());
          EXPECT_EQ(out, want) << "seed " << seed << " sequence " << sequence;
          EXPECT_TRUE(seen.insert(out).second) << "the same noise as an earlier frame's";
        }
      }
    }
  }
}

}  // namespace
}  // namespace longhaul
