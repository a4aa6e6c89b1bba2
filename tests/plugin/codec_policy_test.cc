// Which tensors of a group are encoded, with what, and what is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compressors/catalog.h"
#include "plugin/core/packet.h"
#include "plugin/core/tensor_kind.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Policy : public testing::TestWithParam<TransportKind> {};

void UseCodecs(GroupOptions& options) {
  options.codecs.forward = "int4-b64-h64";
  options.codecs.backward = "int8-b64";
  options.codecs.by_tag = {{9, "bf16"}};
  options.seed = 5;
  options.nmse_every = 1;
}

CrossingCounters Row(const Group& group, int peer, bool sent) {
  for (const CrossingCounters& row : TotalsByPeer(group.counters())) {
    if (row.peer == peer && row.sent == sent) return row;
  }
  ADD_FAILURE() << "no row";
  return {};
}

void Cross(Group& from, Group& to, const WireTensor& x, const WireTensor& y, int tag) {
  Outcome send, recv;
  to.Recv(y, from.options().rank, tag, recv.done());
  from.Send(x, to.options().rank, tag, send.done());
  ASSERT_EQ(send.Wait(), absl::OkStatus());
  ASSERT_EQ(recv.Wait(), absl::OkStatus());
}

// What the codec itself makes of it.
size_t EncodedBytes(const std::string& codec, Shape shape, std::vector<float>& values) {
  const auto made = MakeCodec(codec).value();
  std::vector<std::byte> frame(made->MaxFrameBytes(shape, DType::kF32));
  return made->Encode({values.data(), DType::kF32, shape}, 1, nullptr, frame).value();
}

TEST_P(Policy, EachDirectionAndTagHasItsCodecAndItsBytes) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> x = Noise(64 * 4096, 1), y(x.size());
  const Shape shape{64, 4096};
  const std::vector<int64_t> dims = {8, 8, 4096};
  const WireTensor in{x.data(), ElementType::kF32, dims}, out{y.data(), ElementType::kF32, dims};

  Cross(*group[0], *group[1], in, out, 0);
  EXPECT_NE(x, y);
  const auto forward = static_cast<int64_t>(EncodedBytes("int4-b64-h64", shape, x));
  CrossingCounters sent = Row(*group[0], 1, true);
  EXPECT_EQ(sent.codec, "int4-b64-h64");
  EXPECT_EQ(sent.payload_bytes, forward);
  EXPECT_EQ(sent.message_bytes, forward + static_cast<int64_t>(kPacketHeaderBytes));
  EXPECT_EQ(sent.elements, 64 * 4096);
  EXPECT_EQ(sent.tensors, 1);
  EXPECT_EQ(sent.nmse_samples, 1);
  EXPECT_GT(sent.nmse_sum, 0.0);
  EXPECT_LT(sent.nmse_sum, 0.05);
  const std::vector<NmseSample> samples = group[0]->TakeNmse();
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].peer, 1);
  EXPECT_EQ(samples[0].nmse, sent.nmse_sum);
  EXPECT_TRUE(group[0]->TakeNmse().empty());
  EXPECT_GT(sent.encode, absl::ZeroDuration());
  const CrossingCounters received = Row(*group[1], 0, false);
  EXPECT_EQ(received.payload_bytes, forward);
  EXPECT_EQ(received.payload_hash, sent.payload_hash);
  EXPECT_GT(received.decode, absl::ZeroDuration());

  Cross(*group[1], *group[0], in, out, 0);
  EXPECT_EQ(Row(*group[1], 0, true).codec, "int8-b64");
  EXPECT_EQ(Row(*group[1], 0, true).payload_bytes,
            static_cast<int64_t>(EncodedBytes("int8-b64", shape, x)));
  Cross(*group[0], *group[1], in, out, 9);
  const std::vector<CrossingCounters> rows = group[0]->counters();
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const CrossingCounters& row) {
    return row.codec == "bf16" && row.tensors == 1 && row.payload_bytes < 2 * 64 * 4096 + 128;
  }));
}

TEST_P(Policy, EachBoundaryHasItsPairAndTheOthersThatOfTheGroup) {
  const Cluster cluster(GetParam(), 3);
  const auto group = cluster.MakeGroup("pp", [](GroupOptions& options) {
    options.codecs.by_boundary = {{1, {.forward = "bf16", .backward = "int8-b64"}}};
  });
  std::vector<float> x = Noise(5000, 1), y(x.size());
  Cross(*group[0], *group[1], F32(x), F32(y), 0);
  EXPECT_EQ(x, y);
  EXPECT_EQ(Row(*group[0], 1, true).codec, "none");
  Cross(*group[1], *group[0], F32(x), F32(y), 0);
  EXPECT_EQ(x, y);
  Cross(*group[1], *group[2], F32(x), F32(y), 0);
  EXPECT_NE(x, y);
  EXPECT_EQ(Row(*group[1], 2, true).codec, "bf16");
  Cross(*group[2], *group[1], F32(x), F32(y), 0);
  EXPECT_EQ(Row(*group[2], 1, true).codec, "int8-b64");
  // Ranks that are no neighbours have no boundary between them.
  Cross(*group[0], *group[2], F32(x), F32(y), 0);
  EXPECT_EQ(x, y);
}

TEST_P(Policy, SparseAndVariableFramesCrossToo) {
  const Cluster cluster(GetParam(), 2);
  for (const char* name : {"topk-64of4096+int4-b64", "randk-64of4096+bf16", "tah4-g64", "stat4",
                           "sign1", "fp8-e4m3-g16", "mxfp4-h32"}) {
    const auto group =
        cluster.MakeGroup(name, [&](GroupOptions& options) { options.codecs.forward = name; });
    std::vector<float> x = Noise(32 * 1024, 1), y(x.size());
    const std::vector<int64_t> dims = {32, 1024};
    Cross(*group[0], *group[1], {x.data(), ElementType::kF32, dims},
          {y.data(), ElementType::kF32, dims}, 0);
    const CrossingCounters row = Row(*group[0], 1, true);
    EXPECT_GT(row.payload_bytes, 0) << name;
    EXPECT_LT(row.payload_bytes, static_cast<int64_t>(x.size() * sizeof(float) / 2)) << name;
    double error = 0, power = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += (x[i] - y[i]) * (x[i] - y[i]);
      power += x[i] * x[i];
    }
    EXPECT_GT(error, 0) << name;
    EXPECT_LT(error, 64 * power) << name;  // randk scales what it keeps by d / k
  }
}

TEST_P(Policy, IntegersSmallTensorsAndCollectivesStayLossless) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> small = Noise(4095, 1), small_out(4095);
  Cross(*group[0], *group[1], F32(small), F32(small_out), 0);
  EXPECT_EQ(small, small_out);
  std::vector<int64_t> ints(100000), ints_out(100000);
  for (size_t i = 0; i < ints.size(); ++i) ints[i] = static_cast<int64_t>(i * 7919);
  Cross(*group[0], *group[1], Tensor1D(ints, ElementType::kI64),
        Tensor1D(ints_out, ElementType::kI64), 0);
  EXPECT_EQ(ints, ints_out);
  EXPECT_EQ(Row(*group[0], 1, true).codec, "none");
  std::vector<float> root = Noise(100000, 2), copy(100000);
  Outcome a, b;
  group[0]->Broadcast(F32(root), 0, a.done());
  group[1]->Broadcast(F32(copy), 0, b.done());
  ASSERT_EQ(a.Wait(), absl::OkStatus());
  ASSERT_EQ(b.Wait(), absl::OkStatus());
  EXPECT_EQ(root, copy);
  EXPECT_GT(Row(*group[0], 1, true).collective_bytes, 400000);
}

TEST_P(Policy, ALossyFrameOnALosslessGroupIsAnError) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", [](GroupOptions& options) {
    if (options.rank == 0) options.codecs.forward = "int8-b64";
  });
  std::vector<float> x = Noise(5000, 1), y(5000, 3.0f);
  const std::vector<float> untouched = y;
  Outcome send, recv, next_send, next_recv;
  group[1]->Recv(F32(y), 0, 0, recv.done());
  group[0]->Send(F32(x), 1, 0, send.done());
  const absl::Status status = recv.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("int8-b64"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("lossless"));
  EXPECT_EQ(y, untouched);
}

TEST_P(Policy, AnUnencodableTensorFailsOnBothSidesAndTheChannelGoesOn) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> bad = Noise(5000, 1), good = bad, y(5000);
  bad[77] = std::numeric_limits<float>::quiet_NaN();
  Outcome send, recv;
  group[1]->Recv(F32(y), 0, 0, recv.done());
  group[0]->Send(F32(bad), 1, 0, send.done());
  EXPECT_EQ(send.Wait().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status status = recv.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 gave it up"));
  Cross(*group[0], *group[1], F32(good), F32(y), 0);
}

// Bigger than one packet once encoded: put together, then decoded.
TEST_P(Policy, BigFramesDecodeLikeSmallOnes) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> x = Noise(1024 * 2048, 1), y(x.size()), expected(x.size());
  const std::vector<int64_t> dims = {1024, 2048};
  Cross(*group[0], *group[1], {x.data(), ElementType::kF32, dims},
        {y.data(), ElementType::kF32, dims}, 0);
  const auto codec = MakeCodec("int4-b64-h64").value();
  const Shape shape{1024, 2048};
  std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
  const size_t bytes = codec->Encode({x.data(), DType::kF32, shape}, 1, nullptr, frame).value();
  ASSERT_GT(bytes, size_t{256} << 10);
  ASSERT_EQ(codec->Decode({frame.data(), bytes}, nullptr, {expected.data(), DType::kF32, shape}),
            absl::OkStatus());
  EXPECT_EQ(y, expected);
}

TEST_P(Policy, SavedStateGoesOnWithTheSameBytes) {
  const auto use_feedback = [](GroupOptions& options) {
    options.codecs.forward = "int4-b64-h64+ef";
    options.ef_slots = 2;
    options.seed = 11;
  };
  const auto run = [&](const std::vector<std::shared_ptr<Group>>& group, int from, int to) {
    std::vector<float> y(8192);
    for (int step = from; step < to; ++step) {
      std::vector<float> x = Noise(8192, static_cast<uint64_t>(step));
      Cross(*group[0], *group[1], F32(x), F32(y), 3);
    }
    return y;
  };
  const Cluster cluster(GetParam(), 2);
  const auto whole = cluster.MakeGroup("whole", use_feedback);
  run(whole, 0, 4);
  std::string saved[2];
  for (size_t r = 0; r < 2; ++r) saved[r] = whole[r]->SaveState().value();
  const std::vector<float> expected = run(whole, 4, 7);

  const auto resumed = cluster.MakeGroup("resumed", use_feedback);
  const auto fresh = cluster.MakeGroup("fresh", use_feedback);
  for (size_t r = 0; r < 2; ++r) ASSERT_EQ(resumed[r]->LoadState(saved[r]), absl::OkStatus());
  EXPECT_EQ(run(resumed, 4, 7), expected);
  EXPECT_NE(run(fresh, 4, 7), expected) << "the residuals must matter, or this tests nothing";

  saved[0][saved[0].size() / 2] ^= 1;
  const auto damaged = cluster.MakeGroup("damaged", use_feedback);
  EXPECT_EQ(damaged[0]->LoadState(saved[0]).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged[0]->LoadState(saved[1]).code(), absl::StatusCode::kInvalidArgument);
}

// As a looped pipeline does, where a rank holds several stages.
TEST_P(Policy, ATagThatNamesTheKindWinsOverTheOrderOfRanks) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> x = Noise(8192, 1), y(8192);
  const int64_t activation = static_cast<int64_t>(EncodedBytes("int4-b64-h64", {1, 8192}, x));
  const int64_t gradient = static_cast<int64_t>(EncodedBytes("int8-b64", {1, 8192}, x));
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0)}) {
    Cross(*group[from], *group[to], F32(x), F32(y), KindTag(TensorKind::kActivation, 3));
    EXPECT_EQ(Row(*group[from], to, true).payload_bytes, activation);
    EXPECT_EQ(Row(*group[from], to, true).codec, "int4-b64-h64");
    Cross(*group[from], *group[to], F32(x), F32(y), KindTag(TensorKind::kGradient, 3));
    EXPECT_EQ(Row(*group[from], to, true).payload_bytes, activation + gradient);
  }
}

TEST_P(Policy, WhatTheOrderOfRanksCannotTellIsAnErrorAtOnce) {
  const Cluster cluster(GetParam(), 3);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> x = Noise(8192, 1), y(8192), few(100), got(100);
  Outcome around;
  group[2]->Send(F32(x), 0, 0, around.done());
  const absl::Status status = around.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("activation (codec 'int4-b64-h64')"),
                             HasSubstr("gradient ('int8-b64')"), HasSubstr("by_tag")));
  Cross(*group[2], *group[0], F32(few), F32(got), 0);  // never encoded: no question
  Cross(*group[2], *group[0], F32(x), F32(y), KindTag(TensorKind::kActivation, 0));
  Cross(*group[2], *group[1], F32(x), F32(y), 0);

  const auto strict = cluster.MakeGroup("strict", [](GroupOptions& options) {
    UseCodecs(options);
    options.codecs.unnamed_kind = CodecPolicy::UnnamedKind::kRefused;
  });
  Outcome refused;
  strict[0]->Send(F32(x), 1, 0, refused.done());
  EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kInvalidArgument);
  Cross(*strict[0], *strict[1], F32(x), F32(y), 9);

  const auto alike = cluster.MakeGroup("alike", [](GroupOptions& options) {
    options.codecs.forward = options.codecs.backward = "int8-b64";
    options.codecs.unnamed_kind = CodecPolicy::UnnamedKind::kRefused;
  });
  Cross(*alike[2], *alike[0], F32(x), F32(y), 0);
}

TEST_P(Policy, ANegativeMinElementsIsRefused) {
  const Cluster cluster(GetParam(), 1);
  GroupOptions options{.name = "x", .rank = 0, .size = 1};
  options.codecs.min_elements = -1;
  const absl::Status status =
      Group::Create(cluster.nodes[0], options, cluster.addresses()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("min_elements -1"));
}

TEST_P(Policy, AnUnknownCodecIsNotFound) {
  const Cluster cluster(GetParam(), 1);
  GroupOptions options{.name = "x", .rank = 0, .size = 1};
  options.codecs.forward = "int4-b65";
  EXPECT_EQ(Group::Create(cluster.nodes[0], options, cluster.addresses()).status().code(),
            absl::StatusCode::kNotFound);
}

// Between two tensors the sender takes another codec: the receiver reads it from the frame. The
// choice goes with the state, to a group that is made anew too.
TEST_P(Policy, TheSenderMayChangeItsCodecBetweenTensors) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", UseCodecs);
  std::vector<float> x = Noise(64 * 64, 1), y(x.size());
  const WireTensor in{x.data(), ElementType::kF32, {64, 64}},
      out{y.data(), ElementType::kF32, {64, 64}};
  const auto cross = [&](const std::vector<std::shared_ptr<Group>>& ranks) {
    const int64_t before = Row(*ranks[0], 1, true).payload_bytes;
    Cross(*ranks[0], *ranks[1], in, out, 0);
    return Row(*ranks[0], 1, true).payload_bytes - before;
  };
  const auto bytes = [&](const char* codec) {
    return static_cast<int64_t>(EncodedBytes(codec, {64, 64}, x));
  };
  EXPECT_EQ(cross(group), bytes("int4-b64-h64"));
  ASSERT_EQ(group[0]->UseCodec(1, TensorKind::kActivation, "minmax2-b64"), absl::OkStatus());
  EXPECT_EQ(group[0]->CodecFor(in, 1, 0), "minmax2-b64");
  EXPECT_EQ(group[0]->CodecFor(in, 1, 9), "bf16") << "a tag's own codec stays";
  EXPECT_EQ(cross(group), bytes("minmax2-b64"));
  ASSERT_EQ(group[0]->UseCodec(1, TensorKind::kActivation, "none"), absl::OkStatus());
  EXPECT_EQ(cross(group), 4 * 64 * 64);
  EXPECT_EQ(y, x);
  ASSERT_EQ(group[0]->UseCodec(1, TensorKind::kActivation, "bf16"), absl::OkStatus());
  std::string saved[2];
  for (size_t r = 0; r < 2; ++r) saved[r] = group[r]->SaveState().value();
  const auto resumed = cluster.MakeGroup("again", UseCodecs);
  for (size_t r = 0; r < 2; ++r) ASSERT_EQ(resumed[r]->LoadState(saved[r]), absl::OkStatus());
  EXPECT_EQ(cross(resumed), bytes("bf16"));
  EXPECT_EQ(group[1]->CodecFor(in, 0, 0), "int8-b64") << "the other end chooses for itself";

  const auto refused = [&](int dst, const char* codec) {
    return std::string(group[0]->UseCodec(dst, TensorKind::kActivation, codec).message());
  };
  EXPECT_THAT(refused(1, "int5"), HasSubstr("int5"));
  EXPECT_THAT(refused(1, "int4-b64+ef"), HasSubstr("keeps a state from tensor to tensor"));
  EXPECT_THAT(refused(2, "bf16"), HasSubstr("rank 2"));
  EXPECT_EQ(cross(group), bytes("bf16"));
  const auto lossless = cluster.MakeGroup("plain", [](GroupOptions&) {});
  EXPECT_THAT(std::string(lossless[0]->UseCodec(1, TensorKind::kActivation, "bf16").message()),
              HasSubstr("policy is lossless"));
}

INSTANTIATE_TEST_SUITE_P(Transports, Policy, testing::ValuesIn(AllTransports()), TransportName);

TEST(PolicyAcrossTransports, LoopbackAndUcxCarryTheSamePayloadBytes) {
  std::vector<uint64_t> hashes;
  std::vector<std::vector<float>> results;
  for (const TransportKind kind : AllTransports()) {
    const Cluster cluster(kind, 2);
    const auto group = cluster.MakeGroup("pp", UseCodecs);
    std::vector<float> y(1 << 17);
    std::vector<Outcome> outcomes(2 * 6);
    std::vector<std::vector<float>> sent;
    for (size_t i = 0; i < 6; ++i) sent.push_back(Noise(i % 2 == 0 ? 1 << 17 : 5000, i));
    std::vector<std::vector<float>> got(6);
    for (size_t i = 0; i < 6; ++i) {
      got[i].resize(sent[i].size());
      group[0]->Send(F32(sent[i]), 1, static_cast<int>(i % 3), outcomes[2 * i].done());
      group[1]->Recv(F32(got[i]), 0, static_cast<int>(i % 3), outcomes[2 * i + 1].done());
    }
    for (const Outcome& outcome : outcomes) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
    hashes.push_back(Row(*group[0], 1, true).payload_hash);
    EXPECT_EQ(Row(*group[1], 0, false).payload_hash, hashes.back());
    results.push_back(got[4]);
  }
  EXPECT_NE(hashes[0], 0u);
  for (const uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

}  // namespace
}  // namespace longhaul
