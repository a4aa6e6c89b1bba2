#include "plugin/backend/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "compressors/catalog.h"
#include "tests/backend/ranks.h"
#include "tests/backend/thrown.h"

namespace longhaul {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

std::vector<at::Tensor> One(at::Tensor x) { return {std::move(x)}; }

void OptIn(ProcessGroupLonghaul::Options& options) {
  options.codecs = {.forward = "int4-b64-h64", .backward = "int8-b64", .by_tag = {{9, "none"}}};
}

// Bytes of the frame of that codec for x, by the codec itself.
int64_t FrameBytes(const std::string& codec_name, const at::Tensor& x) {
  const auto codec = *MakeCodec(codec_name);
  const Shape shape{static_cast<uint64_t>(x.size(0)), static_cast<uint64_t>(x.size(1))};
  std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
  return static_cast<int64_t>(
      *codec->Encode({x.data_ptr(), DType::kF32, shape}, 1, nullptr, frame));
}

// Sends x from rank `from` to rank `to` of a group of two; returns what arrived.
at::Tensor Passed(const LocalGroup& group, int from, int to, const at::Tensor& x, int tag = 0) {
  std::vector<at::Tensor> sent = {x}, got = {at::zeros_like(x)};
  const auto work = group[from]->send(sent, to, tag);
  group[to]->recv(got, from, tag)->wait();
  work->wait();
  return got[0];
}

CrossingCounters SentBy(const LocalGroup& group, int rank) {
  for (const CrossingCounters& c : TotalsByPeer(group[rank]->group().counters())) {
    if (c.sent) return c;
  }
  return {.peer = -1, .sent = true, .codec = "nothing sent", .encode = {}, .decode = {}};
}

TEST(CodecPolicy, ForwardToHigherRanksBackwardToLower) {
  const LocalGroup group = LoopbackGroup(2, OptIn);
  const at::Tensor x = at::randn({64, 256});
  const at::Tensor up = Passed(group, 0, 1, x), down = Passed(group, 1, 0, x);
  EXPECT_FALSE(at::equal(up, x));
  EXPECT_FALSE(at::equal(down, x));
  EXPECT_TRUE(at::allclose(up, x, /*rtol=*/0, /*atol=*/1.0));
  EXPECT_TRUE(at::allclose(down, x, /*rtol=*/0, /*atol=*/0.05));
  EXPECT_EQ(SentBy(group, 0).codec, "int4-b64-h64");
  EXPECT_EQ(SentBy(group, 0).payload_bytes, FrameBytes("int4-b64-h64", x));
  EXPECT_EQ(SentBy(group, 0).elements, x.numel());
  EXPECT_EQ(SentBy(group, 1).codec, "int8-b64");
  EXPECT_EQ(SentBy(group, 1).payload_bytes, FrameBytes("int8-b64", x));
}

TEST(CodecPolicy, TagsWinOverTheDirection) {
  const LocalGroup group = LoopbackGroup(2, OptIn);
  const at::Tensor x = at::randn({64, 256});
  EXPECT_TRUE(at::equal(Passed(group, 0, 1, x, /*tag=*/9), x));
}

TEST(CodecPolicy, IntegersSmallTensorsAndCollectivesStayExact) {
  const LocalGroup group = LoopbackGroup(2, OptIn);
  const at::Tensor integers = at::arange(100000, at::kLong), small = at::randn({10, 10});
  EXPECT_TRUE(at::equal(Passed(group, 0, 1, integers), integers));
  EXPECT_TRUE(at::equal(Passed(group, 0, 1, small), small));
  const at::Tensor x = at::randn({64, 256});
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> copy = One(rank == 0 ? x.clone() : at::zeros_like(x));
    pg.broadcast(copy, {})->wait();
    EXPECT_TRUE(at::equal(copy[0], x));
    pg.allreduce(copy, {})->wait();
    EXPECT_TRUE(at::equal(copy[0], x + x));
  });
}

TEST(CodecPolicy, GroupThatDidNotOptInIsExact) {
  const LocalGroup group = LoopbackGroup(2);
  const at::Tensor x = at::randn({64, 256});
  EXPECT_TRUE(at::equal(Passed(group, 0, 1, x), x));
  EXPECT_EQ(SentBy(group, 0).payload_bytes, 4 * x.numel());
}

TEST(PointToPoint, SendsGoOutBeforeAnyReceiveAndMatchInOrder) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (int i = 0; i < 20; ++i) {
    for (const int from : {0, 1}) {
      std::vector<at::Tensor> x = One(at::full({1000}, i, at::kInt));
      works.push_back(group[from]->send(x, 1 - from, 0));
    }
  }
  for (int i = 0; i < 20; ++i) {
    for (const int to : {0, 1}) {
      std::vector<at::Tensor> x = One(at::zeros({1000}, at::kInt));
      group[to]->recv(x, 1 - to, 0)->wait();
      EXPECT_EQ(x[0][999].item<int>(), i);
    }
  }
  for (const auto& work : works) work->wait();
}

TEST(PointToPoint, GroupsOfTheSameNodesDoNotMix) {
  const auto nodes = MakeLoopbackNodes(2);
  ProcessGroupLonghaul::Options options;
  options.group_name = "a";
  const LocalGroup a = MakeLocalGroup(nodes, options);
  options.group_name = "b";
  const LocalGroup b = MakeLocalGroup(nodes, options);
  std::vector<at::Tensor> one = One(at::ones({4})), two = One(at::full({4}, 2.0f));
  a[0]->send(one, 1, 0);
  EXPECT_TRUE(at::equal(Passed(b, 0, 1, two[0]), two[0]));
  std::vector<at::Tensor> got = One(at::zeros({4}));
  a[1]->recv(got, 0, 0)->wait();
  EXPECT_TRUE(at::equal(got[0], one[0]));
}

TEST(PointToPoint, StridedTargetIsFilled) {
  const LocalGroup group = LoopbackGroup(2);
  const at::Tensor x = at::randn({8, 8}), whole = at::zeros({8, 16});
  std::vector<at::Tensor> sent = One(x), got = One(whole.narrow(1, 4, 8));
  group[0]->send(sent, 1, 0);
  group[1]->recv(got, 0, 0)->wait();
  EXPECT_TRUE(at::equal(whole.narrow(1, 4, 8), x));
  EXPECT_EQ(at::count_nonzero(whole).item<int64_t>(), at::count_nonzero(x).item<int64_t>());
}

TEST(PointToPoint, MismatchNamesBothSidesAndLeavesTheChannelUsable) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> longs = One(at::zeros({3}, at::kLong)), floats = One(at::zeros({4}));
  group[0]->send(longs, 1, 0);
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[1]->recv(floats, 0, 0)->wait(); }),
              AllOf(HasSubstr("recv (group 'test' rank 1"), HasSubstr("i64"), HasSubstr("f32")));
  EXPECT_EQ(group[1]->getError(), c10d::ErrorType::SUCCESS);
  EXPECT_TRUE(at::equal(Passed(group, 0, 1, at::ones({5})), at::ones({5})));
}

TEST(PointToPoint, PeerMustBeAnotherRank) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::zeros({4}));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[1]->send(x, 1, 0); }),
              HasSubstr("send (group 'test' rank 1): peer 1 is not another rank of a group of 2"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[1]->recv(x, 2, 0); }), HasSubstr("peer 2"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[1]->broadcast(x, {.rootRank = 2}); }),
              HasSubstr("root 2"));
}

TEST(Collectives, FutureOfAllReduceHoldsTheCallersMemory) {
  const LocalGroup group = LoopbackGroup(2);
  OnAllRanks(group, [&](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> x = One(at::full({4}, rank + 1.0f));
    const auto future = pg.allreduce(x, {})->getFuture();
    future->waitAndThrow();
    const std::vector<at::Tensor> value = future->value().toTensorVector();
    ASSERT_EQ(value.size(), 1);
    EXPECT_EQ(value[0].data_ptr(), x[0].data_ptr());
    EXPECT_TRUE(at::equal(x[0], at::full({4}, 3.0f)));
  });
}

TEST(Collectives, ShapesThatDoNotFitAreRefused) {
  const LocalGroup group = LoopbackGroup(2);
  at::Tensor in = at::zeros({4}), out = at::zeros({7});
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->_allgather_base(out, in, {}); }),
              AllOf(HasSubstr("2 times the input's 4 elements"), HasSubstr("saw 7")));
  std::vector<std::vector<at::Tensor>> lists = {{at::zeros({4}), at::zeros({5})}};
  std::vector<at::Tensor> inputs = {in};
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->allgather(lists, inputs, {}); }),
              HasSubstr("outputs must be like the input"));
}

TEST(Collectives, AreCounted) {
  const LocalGroup group = LoopbackGroup(2);
  OnAllRanks(group, [&](int, ProcessGroupLonghaul& pg) {
    pg.setSequenceNumberForGroup();
    pg.barrier({})->wait();
    std::vector<at::Tensor> x = One(at::zeros({4}));
    pg.allreduce(x, {})->wait();
    EXPECT_EQ(pg.getSequenceNumberForGroup(), 2);
  });
}

TEST(Collectives, OnesWithARootCheckWhatIsTheRoots) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::zeros({4}));
  std::vector<std::vector<at::Tensor>> one = {x}, both = {{at::zeros({4}), at::zeros({5})}}, none;
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->gather(one, x, {}); }),
              HasSubstr("gather (group 'test' rank 0): the root needs one list of 2 tensors"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->gather(both, x, {}); }),
              HasSubstr("outputs must be like the input"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[1]->gather(both, x, {}); }),
              HasSubstr("outputs are the root's alone"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->scatter(x, none, {}); }),
              HasSubstr("one list of 2 tensors"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[1]->scatter(x, both, {}); }),
              HasSubstr("inputs are the root's alone"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->reduce(x, {.rootRank = 2}); }),
              HasSubstr("root 2 is not a rank of a group of 2"));
  at::Tensor out = at::zeros({3});
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->_reduce_scatter_base(out, x[0], {}); }),
              HasSubstr("2 times the output's 3 elements; saw 4"));
  std::vector<at::Tensor> longs = One(at::zeros({4}, at::kLong));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->reduce_scatter(longs, both, {}); }),
              HasSubstr("must be like this rank's part"));
  EXPECT_THAT(Thrown<c10::ValueError>([&] { group[0]->allgather_coalesced(one, x, {}); }),
              HasSubstr("a list of outputs for each of 2 ranks"));
}

TEST(Collectives, AScaledSumIsRefusedWithWhatToUse) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::zeros({4}));
  c10d::ReduceOp scaled_sum;
  scaled_sum.op_ = c10d::ReduceOp::PREMUL_SUM;  // torch 2.11 has another name for the function
  EXPECT_THAT(
      Thrown<c10::NotImplementedError>([&] { group[0]->allreduce(x, {.reduceOp = scaled_sum}); }),
      HasSubstr("PREMUL_SUM is not supported; multiply first and use SUM"));
}

TEST(Collectives, SparseTensorsOfDifferentSizesAreRefusedOnEveryRank) {
  const LocalGroup group = LoopbackGroup(2);
  OnAllRanks(group, [](int rank, ProcessGroupLonghaul& pg) {
    std::vector<at::Tensor> x = One(at::ones({3 + rank, 2}).to_sparse());
    EXPECT_THAT(
        Thrown<c10::ValueError>([&] { pg.allreduce(x, {})->wait(); }),
        HasSubstr("rank 1 brings 208 bytes, at most 168 are possible: its tensor has another"));
    x = One(at::ones({3, 2}, rank == 0 ? at::kFloat : at::kInt).to_sparse());  // as many bytes
    EXPECT_THAT(Thrown<c10::ValueError>([&] { pg.allreduce(x, {})->wait(); }),
                HasSubstr(c10::str("the tensor of rank ", 1 - rank, " has another dtype")));
    EXPECT_THAT(Thrown<c10::NotImplementedError>(
                    [&] { pg.allreduce(x, {.reduceOp = c10d::ReduceOp::MAX}); }),
                HasSubstr("only SUM is supported; use to_dense() first"));
  });
}

TEST(MonitoredBarrier, NamesTheRankThatDoesNotComeOnEveryRank) {
  const LocalGroup group = LoopbackGroup(3);
  OnAllRanks(group, [](int rank, ProcessGroupLonghaul& pg) {
    c10d::BarrierOptions opts;
    opts.timeout = milliseconds(5000);
    pg.monitoredBarrier(opts, false);
    opts.timeout = milliseconds(100);
    if (rank == 1) return;
    EXPECT_THAT(
        Thrown<c10::DistBackendError>([&] { pg.monitoredBarrier(opts, false); }),
        AllOf(HasSubstr("Rank 1 failed to pass monitoredBarrier in 100 ms"),
              HasSubstr(rank == 0 ? "monitored_barrier"
                                  : "Rank 2 successfully reached monitoredBarrier, but received "
                                    "errors while waiting for send/recv from rank 0")));
    EXPECT_EQ(pg.getError(), c10d::ErrorType::TIMEOUT);
    opts.timeout = milliseconds(0);
    EXPECT_THAT(Thrown<c10::DistBackendError>([&] { pg.monitoredBarrier(opts, false); }),
                HasSubstr(c10::str("Rank ", rank, " timed out in monitoredBarrier")));
  });
}

TEST(Life, TimeoutOfTheGroupEndsAnOperation) {
  const LocalGroup group = LoopbackGroup(2);
  group[1]->setTimeout(milliseconds(50));
  std::vector<at::Tensor> x = One(at::zeros({4}));
  EXPECT_THAT(Thrown<c10::DistBackendError>([&] { group[1]->recv(x, 0, 3)->wait(); }),
              AllOf(HasSubstr("DEADLINE_EXCEEDED"), HasSubstr("recv (group 'test' rank 1")));
  EXPECT_EQ(group[1]->getError(), c10d::ErrorType::TIMEOUT);
  EXPECT_EQ(group[0]->getError(), c10d::ErrorType::SUCCESS);
}

TEST(Life, AbortEndsWhatIsOutstandingAndWhatComesLater) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::zeros({4}));
  const auto work = group[1]->recv(x, 0, 0);
  group[1]->abort();
  EXPECT_THAT(Thrown<c10::DistBackendError>([&] { work->wait(); }), HasSubstr("ABORTED"));
  EXPECT_THAT(Thrown<c10::DistBackendError>([&] { group[1]->recv(x, 0, 0)->wait(); }),
              HasSubstr("ABORTED"));
  EXPECT_EQ(group[1]->getError(), c10d::ErrorType::COMM_ERROR);
}

TEST(Life, WhatWasSentArrivesAfterTheSenderHasLeft) {
  LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::ones({4})), got = One(at::zeros({4}));
  group[0]->send(x, 1, 0)->wait();
  group[0]->shutdown();
  group[1]->recv(got, 0, 0)->wait();
  EXPECT_TRUE(at::equal(got[0], x[0]));
  EXPECT_THAT(Thrown<c10::DistBackendError>([&] { group[0]->send(x, 1, 0); }),
              HasSubstr("group 'test' rank 0: it was shut down"));
  group[0]->shutdown();
}

TEST(Life, AbortReachesTheOtherRanks) {
  const LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::zeros({4}));
  const auto work = group[1]->recv(x, 0, 0);
  group[0]->abort();
  EXPECT_THAT(Thrown<c10::DistBackendError>([&] { work->wait(); }), HasSubstr("rank 0 aborted"));
}

TEST(Life, DestroyedGroupEndsItsWork) {
  LocalGroup group = LoopbackGroup(2);
  std::vector<at::Tensor> x = One(at::zeros({4}));
  const auto work = group[1]->recv(x, 0, 0);
  group[1].reset();  // the one it waits in, not the peer it waits for
  EXPECT_THROW(work->wait(), c10::DistBackendError);
}

}  // namespace
}  // namespace longhaul
