// The contract of Group's send and receive, over every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class PointToPoint : public testing::TestWithParam<TransportKind> {};

TEST_P(PointToPoint, MessagesOfEverySizeArriveWhole) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("sizes");
  for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{4095}, size_t{65536},
                             size_t{65537}, size_t{1000003}, size_t{16} << 20}) {
    std::vector<float> sent = Noise(count, count), got(count, -1);
    Outcome send, recv;
    group[0]->Send(F32(sent), 1, 7, send.done());
    group[1]->Recv(F32(got), 0, 7, recv.done());
    ASSERT_EQ(send.Wait(), absl::OkStatus()) << count;
    ASSERT_EQ(recv.Wait(), absl::OkStatus()) << count;
    ASSERT_EQ(sent, got) << count;
  }
}

TEST_P(PointToPoint, ReceivesMatchInOrderPerSourceAndTag) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("order");
  constexpr int kMessages = 50;
  std::vector<std::vector<float>> sent, got;
  std::vector<Outcome> outcomes(3 * kMessages);
  for (int i = 0; i < kMessages; ++i) {
    sent.push_back(Noise(i % 3 == 0 ? 200000 : 10, i));
    got.emplace_back(sent.back().size());
  }
  for (int i = 0; i < kMessages; ++i) {
    group[0]->Send(F32(sent[i]), 1, 0, outcomes[3 * i].done());
    if (i % 2 == 0) group[1]->Recv(F32(got[i / 2]), 0, 0, outcomes[3 * (i / 2) + 1].done());
  }
  for (int i = kMessages / 2; i < kMessages; ++i) {
    group[1]->Recv(F32(got[i]), 0, 0, outcomes[3 * i + 1].done());
  }
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(outcomes[3 * i].Wait(), absl::OkStatus());
    ASSERT_EQ(outcomes[3 * i + 1].Wait(), absl::OkStatus());
    ASSERT_EQ(sent[i], got[i]) << i;
  }
}

TEST_P(PointToPoint, TagsDoNotBlockEachOther) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("tags");
  std::vector<float> a = Noise(10, 1), b = Noise(20, 2), got_a(10), got_b(20);
  Outcome sent_a, sent_b, recv_a, recv_b;
  group[0]->Send(F32(a), 1, 1, sent_a.done());
  group[0]->Send(F32(b), 1, 2, sent_b.done());
  group[1]->Recv(F32(got_b), 0, 2, recv_b.done());
  ASSERT_EQ(recv_b.Wait(), absl::OkStatus());
  EXPECT_EQ(got_b, b);
  group[1]->Recv(F32(got_a), 0, 1, recv_a.done());
  ASSERT_EQ(recv_a.Wait(), absl::OkStatus());
  EXPECT_EQ(got_a, a);
}

TEST_P(PointToPoint, AMismatchNamesBothSidesAndLeavesTheChannelUsable) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp");
  std::vector<float> sent = Noise(6, 1), got(6);
  std::vector<float> wrong_count(5);
  std::vector<int32_t> wrong_type(6);
  Outcome sends[3], recvs[3];
  for (Outcome& send : sends) group[0]->Send(F32(sent), 1, 3, send.done());
  group[1]->Recv(F32(wrong_count), 0, 3, recvs[0].done());
  group[1]->Recv(Tensor1D(wrong_type, ElementType::kI32), 0, 3, recvs[1].done());
  group[1]->Recv({.values = got.data(), .type = ElementType::kF32, .dims = {2, 3}}, 0, 3,
                 recvs[2].done());
  const absl::Status count = recvs[0].Wait(), type = recvs[1].Wait();
  EXPECT_EQ(count.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(count.message()), HasSubstr("rank 1 posted f32[5], rank 0 sent f32[6]"));
  EXPECT_THAT(std::string(count.message()), HasSubstr("group 'pp'"));
  EXPECT_EQ(type.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(type.message()), HasSubstr("rank 1 posted i32[6], rank 0 sent f32[6]"));
  EXPECT_EQ(recvs[2].Wait(), absl::OkStatus()) << "another shape of the same count is legal";
  EXPECT_EQ(got, sent);
}

TEST_P(PointToPoint, ReceiveAnyTakesTheOldestCompleteMessage) {
  const Cluster cluster(GetParam(), 3);
  const auto group = cluster.MakeGroup("any");
  std::vector<float> two = Noise(100, 2), one = Noise(100, 1), got(100);
  Outcome first, second;
  group[2]->Send(F32(two), 0, 0, first.done());
  ASSERT_EQ(first.Wait(), absl::OkStatus());
  Outcome any_first;
  group[0]->RecvAny(F32(got), 0, any_first.done_from());
  ASSERT_EQ(any_first.Wait(), absl::OkStatus());
  EXPECT_EQ(any_first.source(), 2);
  EXPECT_EQ(got, two);
  Outcome any_second;
  group[0]->RecvAny(F32(got), 0, any_second.done_from());
  group[1]->Send(F32(one), 0, 0, second.done());
  ASSERT_EQ(any_second.Wait(), absl::OkStatus());
  EXPECT_EQ(any_second.source(), 1);
  EXPECT_EQ(got, one);
}

TEST_P(PointToPoint, EveryElementTypeCrossesBitForBit) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("types");
  for (int t = 0; t <= static_cast<int>(kLastElementType); ++t) {
    const auto type = static_cast<ElementType>(t);
    constexpr size_t kCount = 300;
    std::vector<uint8_t> sent(kCount * BytesPerElement(type)), got(sent.size());
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(37 * i + 11 + i / 256);
    Outcome send, recv;
    group[0]->Send({sent.data(), type, {kCount}}, 1, 0, send.done());
    group[1]->Recv({got.data(), type, {kCount}}, 0, 0, recv.done());
    ASSERT_EQ(send.Wait(), absl::OkStatus()) << ToString(type);
    ASSERT_EQ(recv.Wait(), absl::OkStatus()) << ToString(type);
    EXPECT_EQ(got, sent) << ToString(type);
  }
}

TEST_P(PointToPoint, ANegativeTagIsRefusedByNameAndZeroIsNot) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("tags");
  std::vector<float> x(3, 1), y(3);
  for (const int tag : {-1, -7}) {
    Outcome send, recv, any;
    group[0]->Send(F32(x), 1, tag, send.done());
    group[1]->Recv(F32(y), 0, tag, recv.done());
    group[1]->RecvAny(F32(y), tag, any.done_from());
    for (const Outcome* refused : {&send, &recv, &any}) {
      EXPECT_EQ(refused->Wait().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(refused->Wait().message()), HasSubstr("tag " + std::to_string(tag)));
    }
  }
  Outcome send, recv;
  group[0]->Send(F32(x), 1, 0, send.done());
  group[1]->Recv(F32(y), 0, 0, recv.done());
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Transports, PointToPoint, testing::ValuesIn(AllTransports()),
                         TransportName);

}  // namespace
}  // namespace longhaul
