// What the headers promise of order and of bounds, over a transport that lets packets overtake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/core/tensor_kind.h"
#include "tests/plugin/rigged_transport.h"

namespace longhaul {
namespace {

constexpr size_t kLong = 1 << 19;  // of an aqsgd2 first visit four packets, of a difference one

// All packets of the message `sequence` but its first.
std::function<bool(const PacketHeader&)> TailOf(uint64_t sequence) {
  return [=](const PacketHeader& header) {
    return header.kind == PacketKind::kData && header.sequence == sequence && header.offset > 0;
  };
}

std::function<void(GroupOptions&)> With(const std::string& codec) {
  return [=](GroupOptions& options) { options.codecs.forward = codec; };
}

WireTensor Rows(std::vector<float>& x) {
  return {x.data(), ElementType::kF32, {static_cast<int64_t>(x.size() / 1024), 1024}};
}

struct Outcomes {
  std::vector<std::vector<float>> x, y;
  std::vector<Outcome> sends, recvs;
  explicit Outcomes(size_t count) : x(count), y(count), sends(count), recvs(count) {}
};

TEST(Order, AShortDifferenceThatIsWholeWaitsForTheLongFrameBeforeIt) {
  RiggedCluster cluster(2);
  const auto group = cluster.MakeGroup("order", With("aqsgd2"));
  cluster.wires[0]->hold = TailOf(0);
  Outcomes all(2);
  for (size_t i = 0; i < 2; ++i) {
    all.x[i] = Noise(kLong, 1);
    all.y[i].resize(kLong);
    group[1]->Recv(Rows(all.y[i]), 0, 0, all.recvs[i].done());
    group[0]->Send(Rows(all.x[i]), 1, 0, all.sends[i].done());
  }
  EXPECT_FALSE(all.recvs[1].finished()) << "what it is a difference to has not come";
  cluster.wires[0]->LetHeldGo();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(all.recvs[i].Wait(), absl::OkStatus()) << i;
    for (size_t at = 0; at < kLong; at += 1000) {
      EXPECT_NEAR(all.x[i][at], all.y[i][at], 1e-3) << i << " " << at;
    }
  }
}

TEST(Order, AnOvertakingMessageGoesToItsOwnReceive) {
  RiggedCluster cluster(2);
  const auto group = cluster.MakeGroup("fifo");
  cluster.wires[0]->hold = TailOf(0);
  Outcomes all(2);
  for (size_t i = 0; i < 2; ++i) {
    all.x[i] = Noise(kLong, 7 + i);
    all.y[i].resize(kLong);
    group[1]->Recv(F32(all.y[i]), 0, 4, all.recvs[i].done());
    group[0]->Send(F32(all.x[i]), 1, 4, all.sends[i].done());
  }
  EXPECT_FALSE(all.recvs[0].finished());
  cluster.wires[0]->LetHeldGo();
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(all.recvs[i].Wait(), absl::OkStatus());
  EXPECT_TRUE(all.y == all.x);
}

TEST(Order, ReceivesOfOneSourceAndOfAnyTakeMessagesInTheOrderOfPosting) {
  for (const bool any_first : {true, false}) {
    RiggedCluster cluster(2);
    const auto group = cluster.MakeGroup("posted");
    std::vector<float> first = {1}, second = {2}, of_any(1), of_one(1);
    Outcome any, one, sends[2];
    if (any_first) group[1]->RecvAny(F32(of_any), 3, any.done_from());
    group[1]->Recv(F32(of_one), 0, 3, one.done());
    if (!any_first) group[1]->RecvAny(F32(of_any), 3, any.done_from());
    group[0]->Send(F32(first), 1, 3, sends[0].done());
    group[0]->Send(F32(second), 1, 3, sends[1].done());
    ASSERT_EQ(any.Wait(), absl::OkStatus());
    ASSERT_EQ(one.Wait(), absl::OkStatus());
    EXPECT_EQ(of_any[0], any_first ? 1 : 2);
    EXPECT_EQ(of_one[0], any_first ? 2 : 1);
  }
}

TEST(Order, AnyTakesTheMessageThatWasWholeFirst) {
  RiggedCluster cluster(3);
  const auto group = cluster.MakeGroup("any");
  std::vector<float> of_one = {1}, of_two = {2}, y(1);
  Outcome sends[2];
  group[2]->Send(F32(of_two), 0, 3, sends[0].done());
  group[1]->Send(F32(of_one), 0, 3, sends[1].done());
  for (const int source : {2, 1}) {
    Outcome recv;
    group[0]->RecvAny(F32(y), 3, recv.done_from());
    ASSERT_EQ(recv.Wait(), absl::OkStatus());
    EXPECT_EQ(recv.source(), source);
    EXPECT_EQ(y[0], static_cast<float>(source));
  }
}

// It could not become whole here: its credit would be used up before.
TEST(Order, AnyTakesAMessageBeyondTheCreditAsItBegins) {
  RiggedCluster cluster(3, RiggedTransport::Heartbeat::kOff,
                        [](NodeOptions& options) { options.credit_bytes = 1 << 20; });
  const auto group = cluster.MakeGroup("big");
  cluster.wires[1]->hold = TailOf(0);
  std::vector<float> of_one = Noise(kLong, 1), of_two = Noise(kLong, 2), y(kLong), z(kLong);
  Outcome sends[2], first, second;
  group[1]->Send(F32(of_one), 0, 3, sends[0].done());
  group[0]->RecvAny(F32(y), 3, first.done_from());
  group[2]->Send(F32(of_two), 0, 3, sends[1].done());
  group[0]->RecvAny(F32(z), 3, second.done_from());
  ASSERT_EQ(second.Wait(), absl::OkStatus());
  EXPECT_EQ(second.source(), 2);
  EXPECT_FALSE(first.finished());
  cluster.wires[1]->LetHeldGo();
  ASSERT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_EQ(first.source(), 1);
  EXPECT_TRUE(y == of_one && z == of_two);
}

TEST(Credit, AMessageThatIsSentAfterItWasAskedForPassesThoseThatWait) {
  RiggedCluster cluster(2, RiggedTransport::Heartbeat::kOff,
                        [](NodeOptions& options) { options.credit_bytes = 1 << 20; });
  const auto group = cluster.MakeGroup("wanted");
  Outcomes flood(4);
  for (size_t i = 0; i < 4; ++i) {  // 2 MiB each; nobody asks for these
    flood.x[i] = Noise(kLong, i);
    group[0]->Send(F32(flood.x[i]), 1, 0, flood.sends[i].done());
  }
  std::vector<float> x = Noise(kLong, 9), y(kLong);
  Outcome send, recv;
  group[1]->Recv(F32(y), 0, 5, recv.done());
  group[0]->Send(F32(x), 1, 5, send.done());
  ASSERT_EQ(recv.Wait(absl::Seconds(10)), absl::OkStatus());
  EXPECT_TRUE(x == y);
  EXPECT_FALSE(flood.sends[0].finished());
  group[0]->Abort(absl::CancelledError("the end"));
}

// Before and after the message is sent; rank 2 has nothing to say.
TEST(Credit, AReceiveFromAnyRankAsksThoseWhoseCreditIsUsedUp) {
  for (const bool asked_first : {true, false}) {
    RiggedCluster cluster(3, RiggedTransport::Heartbeat::kOff,
                          [](NodeOptions& options) { options.credit_bytes = 1 << 20; });
    const auto group = cluster.MakeGroup("any wanted");
    Outcomes flood(4);
    for (size_t i = 0; i < 4; ++i) {
      flood.x[i] = Noise(kLong, i);
      group[0]->Send(F32(flood.x[i]), 1, 0, flood.sends[i].done());
    }
    std::vector<float> x = Noise(100, 9), y(100);
    Outcome send, recv;
    const auto ask = [&] { group[1]->RecvAny(F32(y), 5, recv.done_from()); };
    if (asked_first) ask();
    group[0]->Send(F32(x), 1, 5, send.done());
    if (!asked_first) ask();
    ASSERT_EQ(recv.Wait(absl::Seconds(10)), absl::OkStatus()) << asked_first;
    EXPECT_EQ(recv.source(), 0);
    EXPECT_EQ(x, y);
    EXPECT_FALSE(flood.sends[0].finished());
    group[0]->Abort(absl::CancelledError("the end"));
  }
}

// 8 MiB each way that nobody takes, and behind them what is asked for.
TEST(Credit, IsThatOfTheReceiverWhereTheTwoDiffer) {
  RiggedCluster cluster(2, RiggedTransport::Heartbeat::kOff,
                        [rank = 0](NodeOptions& options) mutable {
                          options.credit_bytes = rank++ == 0 ? 4 << 20 : 1 << 20;
                        });
  for (const size_t to : {0, 1}) {
    const auto group = cluster.MakeGroup("to " + std::to_string(to));
    const size_t from = 1 - to;
    const int64_t before = cluster.nodes[to]->traffic().received_bytes;
    Outcomes flood(4);
    for (size_t i = 0; i < 4; ++i) {
      flood.x[i] = Noise(kLong, i);
      group[from]->Send(F32(flood.x[i]), static_cast<int>(to), 0, flood.sends[i].done());
    }
    std::vector<float> x = Noise(100, 9), y(100);
    Outcome send, recv;
    group[from]->Send(F32(x), static_cast<int>(to), 5, send.done());
    group[to]->Recv(F32(y), static_cast<int>(from), 5, recv.done());
    ASSERT_EQ(recv.Wait(absl::Seconds(10)), absl::OkStatus());
    const int64_t untaken = cluster.nodes[to]->traffic().received_bytes - before;
    EXPECT_LE(untaken, (to == 0 ? 4 << 20 : 1 << 20) + (64 << 10)) << "to rank " << to;
    EXPECT_GT(untaken, to == 0 ? 2 << 20 : 1 << 19) << "to rank " << to;
    group[0]->Abort(absl::CancelledError("the end"));
  }
}

// Codecs of one send after another from rank 0 to rank 1, from the row that has it.
std::string CodecOf(const Group& group, const WireTensor& x, int tag) {
  const std::string_view name = group.CodecFor(x, 1, tag);
  return name.empty() ? "none" : std::string(name);
}

TEST(Codecs, ATagWinsOverBoundaryAndKindAndABoundaryOverTheGroup) {
  RiggedCluster cluster(3);
  const int activation = KindTag(TensorKind::kActivation, 3);
  const int gradient = KindTag(TensorKind::kGradient, 3);
  const auto group = cluster.MakeGroup("pick", [activation](GroupOptions& options) {
    options.codecs = {.forward = "int4-b64",
                      .backward = "int8-b64",
                      .by_boundary = {{0, {.forward = "fp16", .backward = "none"}}},
                      .by_tag = {{activation, "bf16"}, {7, "none"}}};
  });
  std::vector<float> values = Noise(8192, 1);
  const WireTensor x = F32(values);
  EXPECT_EQ(CodecOf(*group[0], x, 0), "fp16");
  EXPECT_EQ(CodecOf(*group[0], x, gradient), "none");
  EXPECT_EQ(CodecOf(*group[0], x, activation), "bf16");
  EXPECT_EQ(CodecOf(*group[0], x, KindTag(TensorKind::kActivation, 4)), "fp16");
  EXPECT_EQ(CodecOf(*group[0], x, 7), "none");
  EXPECT_EQ(CodecOf(*group[2], x, 0), "int8-b64") << "boundary 1 has no pair of its own";
  EXPECT_EQ(CodecOf(*group[2], x, activation), "bf16");
}

TEST(Codecs, MinElementsOfEveryTypeFromBothSidesAndNothingOfNoElements) {
  RiggedCluster cluster(2);
  for (const int64_t least : {0, 1, 1000}) {
    const auto group = cluster.MakeGroup("min" + std::to_string(least), [=](GroupOptions& options) {
      options.codecs.forward = "int8-b64";
      options.codecs.min_elements = least;
    });
    std::vector<double> memory(2000);
    const auto codec = [&](ElementType type, int64_t elements) {
      return CodecOf(*group[0], {memory.data(), type, {elements}}, 0);
    };
    for (const ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF16}) {
      EXPECT_EQ(codec(type, std::max<int64_t>(1, least)), "int8-b64") << least;
      EXPECT_EQ(codec(type, std::max<int64_t>(1, least) - 1), "none") << least;
    }
    for (const ElementType type : {ElementType::kF64, ElementType::kI8, ElementType::kU8,
                                   ElementType::kI64, ElementType::kBool, ElementType::kF8E4M3}) {
      EXPECT_EQ(codec(type, 2000), "none") << ToString(type);
    }
  }
}

}  // namespace
}  // namespace longhaul
