// What goes wrong, over every transport: every callback runs exactly once, and says what happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Faults : public testing::TestWithParam<TransportKind> {};

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST_P(Faults, AReceiveThatNothingAnswersExpires) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup(
      "late", [](GroupOptions& options) { options.timeout = absl::Milliseconds(200); });
  std::vector<float> x = Noise(10, 1), y(10), z(10);
  Outcome expired, any, send[2], recv;
  group[1]->Recv(F32(y), 0, 4, expired.done());
  const absl::Status status = expired.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status), HasSubstr("recv of f32[10] on rank 1 of group 'late' from rank 0"));
  EXPECT_THAT(Text(status), HasSubstr("sequence 0, tag 4"));
  // The expired receive still takes its message: the k-th receive belongs to the k-th send.
  std::vector<float> first(10, 1.0f), second(10, 2.0f);
  group[0]->Send(F32(first), 1, 4, send[0].done());
  group[0]->Send(F32(second), 1, 4, send[1].done());
  group[1]->SetTimeout(absl::Seconds(60));
  group[1]->Recv(F32(z), 0, 4, recv.done());
  ASSERT_EQ(recv.Wait(), absl::OkStatus());
  // Until then the buffers are the group's.
  EXPECT_EQ(send[0].Wait(), absl::OkStatus());
  EXPECT_EQ(send[1].Wait(), absl::OkStatus());
  EXPECT_EQ(z, second);
  EXPECT_EQ(y, std::vector<float>(10)) << "an expired receive's buffer is the caller's again";
  group[1]->SetTimeout(absl::Milliseconds(100));
  group[1]->RecvAny(F32(y), 5, any.done_from());
  EXPECT_EQ(any.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(expired.calls(), 1);
  EXPECT_EQ(any.calls(), 1);
}

TEST_P(Faults, ASendWithoutCreditExpiresAndItsReceiveLearnsWhy) {
  const Cluster cluster(GetParam(), 2,
                        [](NodeOptions& options) { options.credit_bytes = kMinCreditBytes; });
  const auto group = cluster.MakeGroup("slow", [](GroupOptions& options) {
    if (options.rank == 0) options.timeout = absl::Milliseconds(300);
  });
  std::vector<float> x = Noise(100000, 1), y(100000);
  Outcome send, recv;
  group[0]->Send(F32(x), 1, 0, send.done());
  const absl::Status status = send.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status), HasSubstr("send of f32[100000] from rank 0 to rank 1"));
  group[1]->Recv(F32(y), 0, 0, recv.done());
  EXPECT_EQ(recv.Wait().code(), absl::StatusCode::kAborted);
  std::vector<float> small = Noise(5, 2), got(5);
  Outcome next_send, next_recv;
  group[0]->Send(F32(small), 1, 0, next_send.done());
  group[1]->Recv(F32(got), 0, 0, next_recv.done());
  ASSERT_EQ(next_recv.Wait(), absl::OkStatus());
  EXPECT_EQ(next_send.Wait(), absl::OkStatus());  // until then `small` is the node's
  EXPECT_EQ(got, small);
}

TEST_P(Faults, AnAbortedNodeIsADeadPeer) {
  Cluster cluster(GetParam(), 3);
  const auto group = cluster.MakeGroup("dead");
  std::vector<float> arrived = Noise(10, 1), x(10), y(10), z(10), w(10);
  Outcome early, posted, any, other_recv, other_send, sum;
  group[1]->Send(F32(arrived), 0, 1, early.done());
  ASSERT_EQ(early.Wait(), absl::OkStatus());
  group[0]->Recv(F32(x), 1, 0, posted.done());
  group[0]->RecvAny(F32(y), 2, any.done_from());
  group[0]->AllReduce(F32(z), ReduceOp::kSum, sum.done());
  cluster.nodes[1]->Abort(absl::AbortedError("power cut"));
  for (const Outcome* outcome : {&posted, &any, &sum}) {
    const absl::Status status = outcome->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(outcome->calls(), 1);
  }
  EXPECT_THAT(Text(posted.Wait()), HasSubstr("from rank 1"));
  // What had arrived whole can still be received; everything else with that rank fails at once.
  Outcome late_recv, late_send, last_recv;
  group[0]->Recv(F32(w), 1, 1, late_recv.done());
  EXPECT_EQ(late_recv.Wait(), absl::OkStatus());
  EXPECT_EQ(w, arrived);
  group[0]->Recv(F32(w), 1, 1, last_recv.done());
  EXPECT_EQ(last_recv.Wait().code(), absl::StatusCode::kUnavailable);
  group[0]->Send(F32(w), 1, 0, late_send.done());
  EXPECT_EQ(late_send.Wait().code(), absl::StatusCode::kUnavailable);
  // Other peers go on.
  group[2]->Send(F32(arrived), 0, 3, other_send.done());
  group[0]->Recv(F32(y), 2, 3, other_recv.done());
  EXPECT_EQ(other_recv.Wait(), absl::OkStatus());
  // On the aborted node all fails with its reason.
  Outcome own;
  group[1]->Send(F32(arrived), 0, 1, own.done());
  EXPECT_EQ(own.Wait().code(), absl::StatusCode::kAborted);
}

TEST_P(Faults, WhatIsSentToADeadPeerEndsOnceAlsoWhenTheGroupCloses) {
  Cluster cluster(GetParam(), 2);
  auto group = cluster.MakeGroup("survivor");
  std::vector<float> x = Noise(10, 1), y(10);
  Outcome sent, sums[2], told;
  group[0]->Recv(F32(y), 1, 1, told.done());
  cluster.nodes[1]->Abort(absl::AbortedError("power cut"));
  ASSERT_EQ(told.Wait().code(), absl::StatusCode::kUnavailable);
  group[0]->Send(F32(x), 1, 0, sent.done());
  for (const Outcome& sum : sums) group[0]->AllReduce(F32(y), ReduceOp::kSum, sum.done());
  EXPECT_EQ(sent.Wait().code(), absl::StatusCode::kUnavailable);
  group.clear();
  cluster.nodes.clear();
  EXPECT_EQ(sent.calls(), 1);
  for (const Outcome& sum : sums) {
    EXPECT_FALSE(sum.Wait().ok());
    EXPECT_EQ(sum.calls(), 1);
  }
}

TEST_P(Faults, ALostPeerEndsTheOperationsOfEveryGroupItIsIn) {
  Cluster cluster(GetParam(), 3);
  const auto first = cluster.MakeGroup("first"), second = cluster.MakeGroup("second");
  std::vector<float> a(10), b(10), c(10);
  Outcome outcomes[3];
  first[0]->Recv(F32(a), 1, 0, outcomes[0].done());
  second[0]->Recv(F32(b), 1, 0, outcomes[1].done());
  second[2]->Recv(F32(c), 1, 0, outcomes[2].done());
  cluster.nodes[1]->Abort(absl::AbortedError("power cut"));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.Wait(absl::Seconds(20)).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(outcome.calls(), 1);
  }
}

TEST_P(Faults, HalfTheGroupLeavesAndTheGroupOfTheOthersGoesOn) {
  Cluster cluster(GetParam(), 4);
  auto all = cluster.MakeGroup("all");
  const auto addresses = cluster.addresses();
  std::vector<absl::StatusOr<std::shared_ptr<Group>>> made(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      made[r] = Group::Create(cluster.nodes[r], {.name = "stay", .rank = r, .size = 2},
                              {addresses[0], addresses[1]});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::vector<float>> sums(2, std::vector<float>(100000, 1)), got(2, sums[0]),
      mine(2, std::vector<float>(100000, 2));
  std::vector<Outcome> summed(2), received(2), went_on(2);
  for (size_t r = 0; r < 2; ++r) {
    all[r]->AllReduce(F32(sums[r]), ReduceOp::kSum, summed[r].done());
    all[r]->Recv(F32(got[r]), 2 + static_cast<int>(r), 0, received[r].done());
  }
  all[2].reset();
  all[3].reset();
  cluster.nodes.resize(2);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_FALSE(summed[r].Wait(absl::Seconds(20)).ok());
    EXPECT_THAT(Text(received[r].Wait(absl::Seconds(20))),
                HasSubstr("rank " + std::to_string(2 + r)));
    ASSERT_TRUE(made[r].ok()) << made[r].status();
    (*made[r])->AllReduce(F32(mine[r]), ReduceOp::kSum, went_on[r].done());
  }
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(went_on[r].Wait(), absl::OkStatus());
    EXPECT_EQ(mine[r], std::vector<float>(100000, 4));
  }
}

TEST_P(Faults, ALeavingNodeDeliversWhatItSentAndSaysGoodbye) {
  Cluster cluster(GetParam(), 2);
  auto group = cluster.MakeGroup("leaving");
  std::vector<std::vector<float>> sent, got;
  std::vector<Outcome> sends(20), recvs(20);
  for (size_t i = 0; i < 20; ++i) {
    sent.push_back(Noise(50000, i));
    got.emplace_back(50000);
    group[1]->Send(F32(sent[i]), 0, 0, sends[i].done());
  }
  for (const Outcome& send : sends) ASSERT_EQ(send.Wait(), absl::OkStatus());
  group[1].reset();
  cluster.nodes[1].reset();
  for (size_t i = 0; i < 20; ++i) group[0]->Recv(F32(got[i]), 1, 0, recvs[i].done());
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_EQ(recvs[i].Wait(), absl::OkStatus());
    ASSERT_EQ(got[i], sent[i]);
  }
  Outcome gone;
  group[0]->Recv(F32(got[0]), 1, 0, gone.done());
  EXPECT_EQ(gone.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(gone.Wait()), HasSubstr("goodbye"));
}

TEST_P(Faults, AReceiveFromAnyRankOutlivesARankThatLeavesButNotOneThatDies) {
  Cluster cluster(GetParam(), 4);
  auto group = cluster.MakeGroup("any");
  std::vector<float> x = Noise(10, 1), y(10), z(10);
  Outcome send, first, second;
  group[0]->RecvAny(F32(y), 0, first.done_from());
  group[1].reset();
  cluster.nodes[1].reset();
  group[2]->Send(F32(x), 0, 0, send.done());
  EXPECT_EQ(first.Wait(), absl::OkStatus());
  EXPECT_EQ(y, x);
  group[0]->RecvAny(F32(z), 0, second.done_from());
  cluster.nodes[2]->Abort(absl::AbortedError("power cut"));
  EXPECT_EQ(second.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_P(Faults, AReceiveFromAnyRankEndsWithTheLastThatLeaves) {
  Cluster cluster(GetParam(), 3);
  auto group = cluster.MakeGroup("emptied");
  std::vector<float> y(10), z(10);
  Outcome waiting, late;
  group[0]->RecvAny(F32(y), 0, waiting.done_from());
  for (const size_t rank : {1, 2}) {
    EXPECT_FALSE(waiting.finished()) << "rank " << rank << " is still there";
    group[rank].reset();
    cluster.nodes[rank].reset();
  }
  EXPECT_EQ(waiting.Wait().code(), absl::StatusCode::kUnavailable);
  group[0]->RecvAny(F32(z), 0, late.done_from());
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_P(Faults, AbortingAGroupEndsItOnEveryRankAndNoOther) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("doomed"), other = cluster.MakeGroup("other");
  std::vector<float> x = Noise(10, 1), y(10), z(10);
  Outcome here, there, later, send, recv;
  group[0]->Recv(F32(y), 1, 0, here.done());
  group[1]->Recv(F32(z), 0, 0, there.done());
  group[0]->Abort(absl::CancelledError("stop it"));
  EXPECT_EQ(here.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(there.Wait().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Text(there.Wait()), HasSubstr("rank 0 aborted group 'doomed': stop it"));
  group[1]->Send(F32(x), 0, 0, later.done());
  EXPECT_EQ(later.Wait().code(), absl::StatusCode::kAborted);
  other[0]->Send(F32(x), 1, 0, send.done());
  other[1]->Recv(F32(y), 0, 0, recv.done());
  EXPECT_EQ(recv.Wait(), absl::OkStatus());
  EXPECT_EQ(here.calls() + there.calls() + later.calls(), 3);
}

TEST_P(Faults, AbortWithTransfersInFlightThenCloseRunsEveryCallbackOnce) {
  constexpr size_t kTransfers = 12, kElements = 500'000;
  for (size_t finished_first = 0; finished_first < 4; ++finished_first) {
    Cluster cluster(GetParam(), 2);
    auto group = cluster.MakeGroup("cut off");
    std::vector<float> x = Noise(kElements, 1);
    std::vector<std::vector<float>> got(2 * kTransfers, std::vector<float>(kElements));
    std::vector<Outcome> sends(2 * kTransfers), recvs(2 * kTransfers);
    for (size_t i = 0; i < 2 * kTransfers; ++i) {
      const int from = static_cast<int>(i % 2);
      group[1 - from]->Recv(F32(got[i]), from, 0, recvs[i].done());
      group[from]->Send(F32(x), 1 - from, 0, sends[i].done());
    }
    for (size_t i = 0; i < finished_first; ++i) ASSERT_EQ(recvs[i].Wait(), absl::OkStatus());
    group[0]->Abort(absl::CancelledError("cut"));
    group.clear();
    cluster.nodes.clear();
    for (size_t i = 0; i < 2 * kTransfers; ++i) {
      sends[i].Wait().IgnoreError();
      const absl::Status status = recvs[i].Wait();
      if (status.ok()) {
        EXPECT_EQ(got[i], x);
      }
      EXPECT_EQ(sends[i].calls(), 1);
      EXPECT_EQ(recvs[i].calls(), 1);
    }
  }
}

TEST_P(Faults, ClosingAGroupEndsItsOperationsAndItsNameIsFreeAgain) {
  const Cluster cluster(GetParam(), 2);
  std::vector<float> x = Noise(1000, 1), y(1000), z(1000);
  for (int round = 0; round < 3; ++round) {
    auto group = cluster.MakeGroup("again");
    Outcome pending, stray, send, recv;
    group[0]->Send(F32(x), 1, 0, send.done());
    group[1]->Recv(F32(y), 0, 0, recv.done());
    ASSERT_EQ(recv.Wait(), absl::OkStatus());
    group[0]->Send(F32(x), 1, 1, stray.done());  // never received: gone with the group
    group[1]->Recv(F32(z), 0, 2, pending.done());
    group.clear();
    EXPECT_EQ(pending.Wait().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(pending.calls(), 1);
    stray.Wait().IgnoreError();
    EXPECT_EQ(stray.calls(), 1);
  }
}

TEST_P(Faults, AMessageForAGroupNotMadeYetWaitsForIt) {
  const Cluster cluster(GetParam(), 2);
  const std::vector<std::string> at = cluster.addresses();
  const GroupOptions first{.name = "early", .rank = 0, .size = 2};
  const GroupOptions second{.name = "early", .rank = 1, .size = 2};
  const auto a = Group::Create(cluster.nodes[0], first, at).value();
  std::vector<float> x = Noise(70000, 1), y(70000);
  Outcome send, recv;
  a->Send(F32(x), 1, 0, send.done());
  ASSERT_EQ(send.Wait(), absl::OkStatus());
  const auto b = Group::Create(cluster.nodes[1], second, at).value();
  b->Recv(F32(y), 0, 0, recv.done());
  ASSERT_EQ(recv.Wait(), absl::OkStatus());
  EXPECT_EQ(x, y);
}

TEST_P(Faults, CallbacksMayPostAndMayDropTheLastReference) {
  Cluster cluster(GetParam(), 2);
  auto group = cluster.MakeGroup("nested");
  std::vector<float> x = Noise(10, 1), y(10), z(10);
  Outcome second_send, second_recv;
  Group* const raw = group[0].get();
  group[0]->Send(F32(x), 1, 0, [&, raw](absl::Status status) {
    ASSERT_EQ(status, absl::OkStatus());
    raw->Send(F32(x), 1, 1, second_send.done());
  });
  group[1]->Recv(F32(y), 0, 1, second_recv.done());
  ASSERT_EQ(second_recv.Wait(), absl::OkStatus());
  EXPECT_EQ(y, x);

  Outcome dropped;
  struct Last {
    std::shared_ptr<Group> group;
    std::shared_ptr<Node> node;
  };
  auto last = std::make_shared<Last>(Last{std::move(group[1]), std::move(cluster.nodes[1])});
  Group& keeper = *last->group;
  keeper.Recv(F32(z), 0, 2, [last, done = dropped.done()](absl::Status status) mutable {
    last->group.reset();
    last->node.reset();
    done(status);
  });
  last.reset();
  Outcome send;
  group[0]->Send(F32(x), 1, 2, send.done());
  EXPECT_EQ(dropped.Wait(), absl::OkStatus());
  EXPECT_EQ(dropped.calls(), 1);
}

TEST_P(Faults, NonsenseIsRefusedAtOnce) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("nonsense");
  std::vector<float> x(4), y(4);
  Outcome self, beyond, reduce, gather;
  group[0]->Send(F32(x), 0, 0, self.done());
  group[0]->Recv(F32(x), 2, 0, beyond.done());
  group[0]->AllReduce(F32(x), ReduceOp::kBXor, reduce.done());
  group[0]->AllGather(F32(x), F32(y), gather.done());
  for (const Outcome* outcome : {&self, &beyond, &reduce, &gather}) {
    EXPECT_EQ(outcome->Wait().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(outcome->calls(), 1);
  }
  GroupOptions options{.name = "bad", .rank = 1, .size = 2};
  std::vector<std::string> at = cluster.addresses();
  EXPECT_EQ(Group::Create(cluster.nodes[0], options, at).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "the address of rank 1 is another node's";
  options.rank = 0;
  at[1] = at[0];
  EXPECT_FALSE(Group::Create(cluster.nodes[0], options, at).ok()) << "two ranks on one node";
  at[1] = "not an address";
  EXPECT_FALSE(Group::Create(cluster.nodes[0], options, at).ok());
  EXPECT_FALSE(Node::Create([] {
                 NodeOptions small = OptionsFor(GetParam());
                 small.credit_bytes = 10;
                 return small;
               }())
                   .ok());
}

INSTANTIATE_TEST_SUITE_P(Transports, Faults, testing::ValuesIn(AllTransports()), TransportName);

}  // namespace
}  // namespace longhaul
