// What a sender is told of its tensor is what the receiver gets, bit for bit.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/catalog.h"
#include "compressors/kernels/convert.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Decoded : public testing::TestWithParam<TransportKind> {};

constexpr ElementType kFloats[] = {ElementType::kF32, ElementType::kBF16, ElementType::kF16};

// Noise of a type, and room for as much. Memory that is not used keeps the pattern.
struct Values {
  Values(std::vector<int64_t> dims, ElementType type) : dims(std::move(dims)), type(type) {
    size_t count = 1;
    for (const int64_t dim : this->dims) count *= static_cast<size_t>(dim);
    bytes.assign(count * BytesPerElement(type), std::byte{0xA5});
  }
  void Draw(uint64_t seed) {
    const std::vector<float> noise = Noise(bytes.size() / BytesPerElement(type), seed);
    for (size_t i = 0; i < noise.size(); ++i) {
      StoreElement(noise[i], bytes.data(), static_cast<DType>(type), i);
    }
  }
  WireTensor wire() { return {bytes.data(), type, dims}; }

  std::vector<int64_t> dims;
  ElementType type;
  std::vector<std::byte> bytes;
};

// Sends `x` from rank 0 to rank 1: equal at both ends. Whether it differs from x.
bool CrossesAlike(Group& from, Group& to, Values& x, int tag, const std::string& what) {
  Values told(x.dims, x.type), got(x.dims, x.type);
  Outcome send, recv;
  to.Recv(got.wire(), 0, tag, recv.done());
  from.SendDecoded(x.wire(), told.bytes.data(), 1, tag, send.done());
  EXPECT_EQ(send.Wait(), absl::OkStatus()) << what;
  EXPECT_EQ(recv.Wait(), absl::OkStatus()) << what;
  EXPECT_TRUE(told.bytes == got.bytes) << what;
  return got.bytes != x.bytes;
}

std::vector<std::string> EveryCodec() {
  std::vector<std::string> names = CodecNames();
  for (std::string& name : ParametricExamples()) names.push_back(std::move(name));
  std::vector<std::string> all;
  for (const std::string& name : names) {
    for (const char* ending :
         {"", "+sr", "+ef", "+ef95", "+ef21", "+mc", "+sr+ef", "+sr+ef21", "+sat"}) {
      if (MakeCodec(name + ending).ok()) all.push_back(name + ending);
    }
  }
  return all;
}

// Three messages with two slots: a first visit, one of another slot, one that a state meets again.
TEST_P(Decoded, IsWhatTheReceiverGetsWithEveryCodec) {
  const Cluster cluster(GetParam(), 2);
  int checked = 0, lossy = 0;
  for (const std::string& codec : EveryCodec()) {
    if (codec == "none") continue;  // the policy's word for raw values
    const auto group = cluster.MakeGroup(codec, [&](GroupOptions& options) {
      options.codecs.forward = codec;
      options.seed = 11;
      options.ef_slots = 2;
    });
    for (const ElementType type : kFloats) {
      for (uint64_t i = 0; i < 4; ++i) {
        Values x({8, 4096}, type);
        x.Draw(100 * i + 1);
        lossy += CrossesAlike(*group[0], *group[1], x, static_cast<int>(type),
                              codec + " " + std::string(ToString(type)));
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 12 * 30);
  EXPECT_GT(lossy, checked / 2);
}

TEST_P(Decoded, IsWhatTheReceiverGetsOfALongTensorInPieces) {
  for (const int threads : {0, 2}) {
    const Cluster cluster(GetParam(), 2,
                          [&](NodeOptions& options) { options.coder_threads = threads; });
    for (const char* codec : {"int4-b64-h64", "int8-b64+sr", "bf16", "int4-b64+ef"}) {
      const auto group = cluster.MakeGroup(codec, [&](GroupOptions& options) {
        options.codecs.forward = codec;
        options.nmse_every = 2;
      });
      for (uint64_t i = 0; i < 3; ++i) {
        Values x({1000, 1024}, ElementType::kF32);
        x.Draw(i);
        EXPECT_TRUE(CrossesAlike(*group[0], *group[1], x, 0, codec));
      }
      EXPECT_EQ(TotalsByPeer(group[0]->counters())[0].nmse_samples, 2) << "measured beside it";
    }
  }
}

TEST_P(Decoded, OfAnExactTensorIsACopy) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup(
      "pp", [](GroupOptions& options) { options.codecs.forward = "int4-b64-h64"; });
  Values small({100}, ElementType::kF32), whole({9000}, ElementType::kI64);
  small.Draw(1);
  for (Values* x : {&small, &whole}) {
    EXPECT_FALSE(CrossesAlike(*group[0], *group[1], *x, 3, "exact"));
  }
}

// Every rank is sent the same tensor with the same noise, so all hold what the sender holds.
TEST_P(Decoded, IsTheSameForAllReceivers) {
  const Cluster cluster(GetParam(), 3);
  const auto group = cluster.MakeGroup("outer", [](GroupOptions& options) {
    options.codecs.forward = options.codecs.backward = "int4-b64+sr+ef";
    options.codecs.unnamed_kind = CodecPolicy::UnnamedKind::kRefused;
  });
  for (uint64_t i = 0; i < 3; ++i) {
    Values x({8, 1024}, ElementType::kF32);
    x.Draw(i);
    std::vector<Values> told(3, Values(x.dims, x.type));
    for (const int peer : {0, 2}) {
      Values got(x.dims, x.type);
      Outcome send, recv;
      group[static_cast<size_t>(peer)]->Recv(got.wire(), 1, 5, recv.done());
      group[1]->SendDecoded(x.wire(), told[static_cast<size_t>(peer)].bytes.data(), peer, 5,
                            send.done());
      ASSERT_EQ(send.Wait(), absl::OkStatus());
      ASSERT_EQ(recv.Wait(), absl::OkStatus());
      EXPECT_TRUE(got.bytes == told[static_cast<size_t>(peer)].bytes);
    }
    EXPECT_TRUE(told[0].bytes == told[2].bytes);
    EXPECT_FALSE(told[0].bytes == x.bytes);
  }
}

TEST_P(Decoded, IsNotToldOfASendThatFails) {
  const Cluster cluster(GetParam(), 2);
  const auto group =
      cluster.MakeGroup("pp", [](GroupOptions& options) { options.codecs.forward = "int8-b64"; });
  Values x({8192}, ElementType::kF32), told(x.dims, x.type), got(x.dims, x.type);
  x.Draw(1);
  StoreElement(std::nanf(""), x.bytes.data(), DType::kF32, 77);
  Outcome send, recv;
  group[1]->Recv(got.wire(), 0, 0, recv.done());
  group[0]->SendDecoded(x.wire(), told.bytes.data(), 1, 0, send.done());
  EXPECT_TRUE(absl::IsInvalidArgument(send.Wait()));
  EXPECT_FALSE(recv.Wait().ok());
  Outcome own;
  group[0]->SendDecoded(x.wire(), told.bytes.data(), 0, 0, own.done());
  EXPECT_THAT(std::string(own.Wait().message()), HasSubstr("send to rank 0"));
}

INSTANTIATE_TEST_SUITE_P(Transports, Decoded, testing::ValuesIn(AllTransports()), TransportName);

}  // namespace
}  // namespace longhaul
