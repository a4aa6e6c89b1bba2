// The contract of encoding and decoding beside the strand: whatever comes to its end first, bytes,
// order and states are those of one thread, and nothing ends while a coder still has its memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <thread>

#include "compressors/catalog.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/numbers/noise.h"
#include "plugin/core/packet.h"
#include "tests/plugin/rigged_coder.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using Hold = RiggedCoder::Hold;

constexpr size_t kShort = 8192, kLong = size_t{1} << 20;  // encoded whole, in pieces

std::function<void(GroupOptions&)> With(const std::string& codec, int slots = 1,
                                        absl::Duration timeout = absl::Seconds(30)) {
  return [=](GroupOptions& options) {
    options.codecs.forward = options.codecs.backward = codec;
    options.ef_slots = slots;
    options.seed = 5;
    options.nmse_every = 1;
    options.timeout = timeout;
  };
}

CrossingCounters Row(const Group& group, int peer, bool sent) {
  for (const CrossingCounters& row : TotalsByPeer(group.counters())) {
    if (row.peer == peer && row.sent == sent) return row;
  }
  return {};
}

// Four messages from rank 0 to rank 1; what is encoded ends in the order that `next` draws from
// how many are kept. Answers values received, the hash of the bytes and the errors measured.
struct Crossed {
  std::vector<std::vector<float>> y;
  uint64_t hash;
  std::vector<double> nmse;
  friend bool operator==(const Crossed&, const Crossed&) = default;
};
Crossed CrossFour(TransportKind kind, const std::string& codec, size_t count, Hold hold,
                  std::function<size_t(size_t kept)> next) {
  RiggedPair pair(kind, 0, hold);
  const auto group = pair.cluster.MakeGroup("pp", With(codec, 2));
  std::vector<std::vector<float>> x, y(4, std::vector<float>(count));
  std::vector<Outcome> sends(4), recvs(4);
  for (size_t i = 0; i < 4; ++i) {
    x.push_back(Noise(count, 40 + i));
    group[1]->Recv(F32(y[i]), 0, 3, recvs[i].done());
  }
  for (size_t i = 0; i < 4; ++i) group[0]->Send(F32(x[i]), 1, 3, sends[i].done());
  for (int i = 0; i < 4 && hold == Hold::kEncodes; ++i) {
    EXPECT_TRUE(pair.coder->Await(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // whatever else may come
    EXPECT_TRUE(pair.coder->Finish(next(pair.coder->kept())));
  }
  for (const Outcome& send : sends) EXPECT_EQ(send.Wait(), absl::OkStatus());
  for (const Outcome& recv : recvs) EXPECT_EQ(recv.Wait(), absl::OkStatus());
  Crossed crossed{.y = y, .hash = Row(*group[1], 0, false).payload_hash, .nmse = {}};
  EXPECT_EQ(crossed.hash, Row(*group[0], 1, true).payload_hash);
  for (const NmseSample& sample : group[0]->TakeNmse()) crossed.nmse.push_back(sample.nmse);
  EXPECT_EQ(crossed.nmse.size(), 4u);
  return crossed;
}

// A frame waits for nobody who only looks at it.
TEST(HostCoder, GivesAFrameAwayBeforeItsErrorIsMeasured) {
  const auto codec = MakeCodec("int4-b64-h64").value();
  for (const int threads : {0, 2}) {
    for (const size_t count : {kShort, kLong}) {
      std::vector<float> x = Noise(count, 1);
      HostCoder coder(threads, BufferPool(), &MonotonicClock());
      std::vector<std::string> seen;  // by one job's steps, one after another
      std::promise<void> ended;
      size_t frame_bytes = 0;
      coder.Encode({.codec = codec.get(),
                    .x = {x.data(), DType::kF32, {1, count}},
                    .after = nullptr,
                    .seed = 1,
                    .state = nullptr,
                    .raw_from = {},
                    .inspect =
                        [&](std::span<const std::byte> frame, ConstTensor) {
                          frame_bytes = frame.size();
                          seen.push_back("measured");
                        },
                    .abandoned = {},
                    .update =
                        [&](EncodeUpdate update) {
                          EXPECT_EQ(update.status, absl::OkStatus());
                          seen.push_back(std::to_string(update.ready_bytes) + " ready" +
                                         (update.last ? ", last" : ""));
                          if (update.last) ended.set_value();
                        }});
      ended.get_future().wait();
      ASSERT_GE(seen.size(), 3u);
      EXPECT_THAT(std::vector(seen.end() - 3, seen.end()),
                  testing::ElementsAre(std::to_string(frame_bytes) + " ready", "measured",
                                       std::to_string(frame_bytes) + " ready, last"));
    }
  }
}

class CoderContract : public testing::TestWithParam<TransportKind> {};

TEST_P(CoderContract, WhatEndsFirstChangesNoByte) {
  for (const char* codec : {"int8-b64", "int4-b64+sr", "int4-b64-h64+ef", "int4-b64+ef21"}) {
    for (const size_t count : {kShort, kLong}) {
      const Crossed plain = CrossFour(GetParam(), codec, count, Hold::kNothing, {});
      const auto last = [](size_t kept) { return kept - 1; };
      EXPECT_TRUE(plain == CrossFour(GetParam(), codec, count, Hold::kEncodes, last))
          << codec << " " << count;
    }
  }
}

TEST_P(CoderContract, TicketsOfOneSlotAreGivenOneByOne) {
  RiggedPair pair(GetParam(), 0, Hold::kEncodes);
  const auto group = pair.cluster.MakeGroup("pp", With("int4-b64+ef", 2));
  std::vector<float> x = Noise(kShort, 1);
  std::vector<std::vector<float>> y(4, std::vector<float>(kShort));
  std::vector<Outcome> sends(4), recvs(4);
  for (size_t i = 0; i < 4; ++i) {
    group[1]->Recv(F32(y[i]), 0, 0, recvs[i].done());
    group[0]->Send(F32(x), 1, 0, sends[i].done());
  }
  EXPECT_TRUE(pair.coder->Await(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(pair.coder->kept(), 2u);  // one of each slot
  EXPECT_TRUE(pair.coder->Finish(1));
  EXPECT_TRUE(pair.coder->Await(2));
  EXPECT_EQ(pair.coder->kept(), 2u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const Outcome& recv : recvs) EXPECT_FALSE(recv.finished());  // the first is not out yet
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pair.coder->Await(1));
    EXPECT_TRUE(pair.coder->Finish(0));
  }
  for (const Outcome& recv : recvs) EXPECT_EQ(recv.Wait(), absl::OkStatus());
}

TEST_P(CoderContract, ABigFrameIsStreamedAndIsTheCodecsOwn) {
  for (const int threads : {0, 2}) {
    const Cluster cluster(GetParam(), 2,
                          [&](NodeOptions& options) { options.coder_threads = threads; });
    const auto group = cluster.MakeGroup("pp", With("int4-b64-h64"));
    std::vector<float> x = Noise(kLong, 7), y(kLong);
    const std::vector<int64_t> dims = {1024, 1024};
    Outcome send, recv;
    group[1]->Recv({y.data(), ElementType::kF32, dims}, 0, 6, recv.done());
    group[0]->Send({x.data(), ElementType::kF32, dims}, 1, 6, send.done());
    ASSERT_EQ(recv.Wait(), absl::OkStatus());
    ASSERT_EQ(send.Wait(), absl::OkStatus());
    const auto codec = MakeCodec("int4-b64-h64").value();
    std::vector<std::byte> frame(codec->MaxFrameBytes({1024, 1024}, DType::kF32));
    ASSERT_TRUE(codec->Encode({x.data(), DType::kF32, {1024, 1024}}, 0, nullptr, frame).ok());
    EXPECT_EQ(Row(*group[1], 0, false).payload_hash, FoldSeed({6, 0, Crc32c(frame), frame.size()}));
    // A packet of scales and one of codes for each of four pieces, and one for the header.
    EXPECT_EQ(Row(*group[0], 1, true).message_bytes,
              static_cast<int64_t>(frame.size() + 9 * kPacketHeaderBytes));
    std::vector<float> want(kLong);
    ASSERT_TRUE(codec->Decode(frame, nullptr, {want.data(), DType::kF32, {1024, 1024}}).ok());
    EXPECT_TRUE(y == want);
  }
}

TEST_P(CoderContract, ABigFrameThatWasThereBeforeItsReceiveIsDecodedPieceByPiece) {
  for (const int threads : {0, 2}) {
    const Cluster cluster(GetParam(), 2,
                          [&](NodeOptions& options) { options.coder_threads = threads; });
    const auto group = cluster.MakeGroup("pp", With("int4-b64-h64"));
    std::vector<float> x = Noise(kLong, 7), y(kLong), early(kLong);
    Outcome send, recv, early_send, early_recv;
    group[1]->Recv(F32(early), 0, 6, early_recv.done());
    group[0]->Send(F32(x), 1, 6, early_send.done());
    ASSERT_EQ(early_recv.Wait(), absl::OkStatus());
    group[0]->Send(F32(x), 1, 6, send.done());
    ASSERT_EQ(send.Wait(), absl::OkStatus());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    group[1]->Recv(F32(y), 0, 6, recv.done());
    ASSERT_EQ(recv.Wait(), absl::OkStatus());
    EXPECT_TRUE(y == early) << threads;
  }
}

TEST_P(CoderContract, AnEncodingThatFailsGivesItsMessageUp) {
  for (const size_t count : {kShort, kLong}) {
    RiggedPair pair(GetParam(), 0, Hold::kEncodes);
    const auto group = pair.cluster.MakeGroup("pp", With("int8-b64"));
    std::vector<float> bad = Noise(count, 1), good = bad, y(count), z(count);
    bad[count - 5] = std::nanf("");  // of a long one, pieces have gone by then
    Outcome sends[2], recvs[2];
    group[1]->Recv(F32(y), 0, 0, recvs[0].done());
    group[1]->Recv(F32(z), 0, 0, recvs[1].done());
    group[0]->Send(F32(bad), 1, 0, sends[0].done());
    group[0]->Send(F32(good), 1, 0, sends[1].done());
    ASSERT_TRUE(pair.coder->Await(2));
    pair.coder->Finish(1);
    pair.coder->Finish(0);
    EXPECT_EQ(sends[0].Wait().code(), absl::StatusCode::kInvalidArgument);
    const absl::Status status = recvs[0].Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 gave it up"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("NaN"));
    EXPECT_EQ(sends[1].Wait(), absl::OkStatus());
    EXPECT_EQ(recvs[1].Wait(), absl::OkStatus());
  }
}

TEST_P(CoderContract, NothingEndsWhileACoderHasItsMemory) {
  {
    RiggedPair pair(GetParam(), 0, Hold::kEncodes);
    const auto group = pair.cluster.MakeGroup("pp", With("int8-b64", 1, absl::Milliseconds(80)));
    std::vector<float> x = Noise(kShort, 1);
    Outcome send;
    group[0]->Send(F32(x), 1, 0, send.done());
    ASSERT_TRUE(pair.coder->Await(1));
    EXPECT_EQ(send.Wait(absl::Milliseconds(250)).code(), absl::StatusCode::kInternal);
    pair.coder->Finish(0);
    EXPECT_EQ(send.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  }
  for (const size_t count : {kShort * 8, kLong}) {
    RiggedPair pair(GetParam(), 1, Hold::kDecodes);
    const auto group = pair.cluster.MakeGroup("pp", With("int8-b64", 1, absl::Milliseconds(200)));
    std::vector<float> x = Noise(count, 1), y(count);
    Outcome send, recv;
    group[1]->Recv(F32(y), 0, 0, recv.done());
    group[0]->Send(F32(x), 1, 0, send.done());
    ASSERT_TRUE(pair.coder->Await(1));
    EXPECT_EQ(recv.Wait(absl::Milliseconds(400)).code(), absl::StatusCode::kInternal);
    pair.coder->Finish(0);
    EXPECT_EQ(recv.Wait().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(recv.calls(), 1);
  }
}

TEST_P(CoderContract, AStateIsNotSavedWhileTicketsAreUnderWay) {
  RiggedPair pair(GetParam(), 0, Hold::kEncodes);
  const auto group = pair.cluster.MakeGroup("pp", With("int4-b64+ef", 1));
  std::vector<float> x = Noise(kShort, 1), y(kShort);
  Outcome send, recv;
  group[1]->Recv(F32(y), 0, 0, recv.done());
  group[0]->Send(F32(x), 1, 0, send.done());
  ASSERT_TRUE(pair.coder->Await(1));
  EXPECT_EQ(group[0]->SaveState().status().code(), absl::StatusCode::kFailedPrecondition);
  pair.coder->Finish(0);
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  EXPECT_TRUE(group[0]->SaveState().ok());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
}

TEST_P(CoderContract, AGroupMayGoWhileItsTensorsAreEncoded) {
  RiggedPair pair(GetParam(), 0, Hold::kEncodes);
  auto group = pair.cluster.MakeGroup("pp", With("int8-b64"));
  std::vector<float> x = Noise(kShort, 1);
  Outcome sends[3];
  for (Outcome& send : sends) group[0]->Send(F32(x), 1, 0, send.done());
  ASSERT_TRUE(pair.coder->Await(3));
  group.clear();
  for (const Outcome& send : sends) EXPECT_FALSE(send.finished());
  pair.coder->Finish(2);
  pair.coder->Finish(0);
  pair.coder->Finish(0);
  for (const Outcome& send : sends) {
    EXPECT_EQ(send.Wait().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(send.calls(), 1);
  }
}

TEST_P(CoderContract, ALostPeerEndsWhatIsStillEncoded) {
  RiggedPair pair(GetParam(), 0, Hold::kEncodes);
  auto group = pair.cluster.MakeGroup("pp", With("int8-b64"));
  std::vector<float> x = Noise(kShort, 1);
  Outcome sends[2];
  for (Outcome& send : sends) group[0]->Send(F32(x), 1, 0, send.done());
  ASSERT_TRUE(pair.coder->Await(2));
  pair.cluster.nodes[1]->Abort(absl::InternalError("killed"));
  std::vector<float> y(1);
  Outcome recv;  // ends when rank 0 knows
  group[0]->Recv(F32(y), 1, 9, recv.done());
  EXPECT_EQ(recv.Wait().code(), absl::StatusCode::kUnavailable);
  pair.coder->Finish(1);
  pair.coder->Finish(0);
  for (const Outcome& send : sends) EXPECT_EQ(send.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_P(CoderContract, ANodeMayGoWhileItsThreadsAreAtWork) {
  for (int round = 0; round < 6; ++round) {
    std::vector<float> x = Noise(kLong, 1), y(kLong), z(kLong);
    Outcome sends[3], recvs[2];
    {
      Cluster cluster(GetParam(), 2, [](NodeOptions& options) { options.coder_threads = 2; });
      const auto group = cluster.MakeGroup("pp", With("int4-b64-h64"));
      group[1]->Recv(F32(y), 0, 0, recvs[0].done());
      group[1]->Recv(F32(z), 0, 0, recvs[1].done());
      for (Outcome& send : sends) group[0]->Send(F32(x), 1, 0, send.done());
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      if (round % 2 == 1) cluster.nodes[0]->Abort(absl::InternalError("enough"));
    }
    for (const Outcome& send : sends) {
      EXPECT_NE(std::string(send.Wait().message()), "the callback never ran");
    }
    for (const Outcome& recv : recvs) {
      EXPECT_NE(std::string(recv.Wait().message()), "the callback never ran");
    }
  }
}

// Both directions, many channels, long and short, on many threads and on none: the same bytes.
TEST_P(CoderContract, ThreadsChangeNoByte) {
  std::vector<uint64_t> hashes;
  for (const int threads : {0, 1, 3}) {
    const Cluster cluster(GetParam(), 2,
                          [&](NodeOptions& options) { options.coder_threads = threads; });
    const auto group = cluster.MakeGroup("pp", With("int4-b64+ef", 2));
    const auto exact = cluster.MakeGroup("codes", With("minmax4-b64", 2));
    std::deque<std::vector<float>> memory;
    std::deque<Outcome> outcomes;
    for (uint64_t i = 0; i < 24; ++i) {
      for (const auto& pp : {group, exact}) {
        const auto from = static_cast<size_t>(i % 2), tag = static_cast<size_t>(i / 2 % 3);
        const size_t count = i % 4 < 2 ? 5000 : 600000;
        auto& x = memory.emplace_back(Noise(count, i));
        auto& y = memory.emplace_back(count);
        pp[1 - from]->Recv(F32(y), static_cast<int>(from), static_cast<int>(tag),
                           outcomes.emplace_back().done());
        pp[from]->Send(F32(x), static_cast<int>(1 - from), static_cast<int>(tag),
                       outcomes.emplace_back().done());
      }
    }
    for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
    uint64_t hash = 0;
    for (const auto& pp : {group, exact}) {
      for (int rank : {0, 1}) {
        const auto& mine = *pp[static_cast<size_t>(rank)];
        const auto& other = *pp[static_cast<size_t>(1 - rank)];
        EXPECT_EQ(Row(mine, 1 - rank, true).payload_hash, Row(other, rank, false).payload_hash);
        hash = FoldSeed({hash, Row(mine, 1 - rank, true).payload_hash});
      }
    }
    for (size_t i = 0; i < memory.size(); i += 2) {
      hash = FoldSeed({hash, Crc32c(std::as_bytes(std::span(memory[i + 1])))});
    }
    hashes.push_back(hash);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

INSTANTIATE_TEST_SUITE_P(Transports, CoderContract, testing::ValuesIn(AllTransports()),
                         TransportName);

TEST(Coder, ThreadsOutOfRangeAreRefused) {
  for (const int threads : {-1, 100000}) {
    NodeOptions options = OptionsFor(TransportKind::kLoopback);
    options.coder_threads = threads;
    EXPECT_EQ(Node::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace longhaul
