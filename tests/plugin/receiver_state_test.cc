// Codecs that keep a state at the receiving end (+ef21, aqsgd*) over a group: both ends agree per
// channel and slot, and where they cannot, the receive says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/core/tensor_kind.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class ReceiverState : public testing::TestWithParam<TransportKind> {
 protected:
  static std::function<void(GroupOptions&)> With(const std::string& codec, int slots) {
    return [codec, slots](GroupOptions& options) {
      options.codecs.forward = codec;
      options.ef_slots = slots;
      options.seed = 3;
      options.nmse_every = 1;
    };
  }
};

WireTensor Tokens(std::vector<float>& values) {
  return {.values = values.data(),
          .type = ElementType::kF32,
          .dims = {static_cast<int64_t>(values.size() / 64), 64}};
}

double Error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += double{x[i] - y[i]} * (x[i] - y[i]);
    power += double{x[i]} * x[i];
  }
  return error / power;
}

CrossingCounters Row(const Group& group, int peer, bool sent) {
  for (const CrossingCounters& row : TotalsByPeer(group.counters())) {
    if (row.peer == peer && row.sent == sent) return row;
  }
  ADD_FAILURE() << "no row";
  return {};
}

absl::Status Cross(Group& from, Group& to, std::vector<float>& x, std::vector<float>& y) {
  Outcome send, recv;
  to.Recv(Tokens(y), from.options().rank, 0, recv.done());
  from.Send(Tokens(x), to.options().rank, 0, send.done());
  EXPECT_EQ(send.Wait(), absl::OkStatus());
  return recv.Wait();
}

// Two micro-batches in turn, each with a state of its own: an epoch later each is nearly known.
TEST_P(ReceiverState, EachSlotLearnsItsOwnTensor) {
  const Cluster cluster(GetParam(), 2);
  for (const char* codec : {"aqsgd4", "int4-b64+ef21", "topk-1024of4096+fp16+ef21"}) {
    const auto group = cluster.MakeGroup(codec, With(codec, 2));
    std::vector<float> slot[2] = {Noise(256 * 64, 1), Noise(256 * 64, 2)}, y(256 * 64);
    double error = 1;
    for (int visit = 0; visit < 8; ++visit) {
      std::vector<float>& x = slot[visit % 2];
      ASSERT_EQ(Cross(*group[0], *group[1], x, y), absl::OkStatus()) << codec;
      error = Error(x, y);
    }
    EXPECT_LT(error, 1e-5) << codec;
    // The sender knows what the receiver has without decoding.
    EXPECT_EQ(Row(*group[0], 1, true).nmse_samples, 8);
    EXPECT_EQ(Row(*group[0], 1, true).payload_hash, Row(*group[1], 0, false).payload_hash);
  }
}

// Three samples in another order each epoch, of two rows and two columns; aqsgd2 by hand: with s the
// largest |x - m| of a column and codes -2 to 1, m moves by code s / 2.
TEST_P(ReceiverState, ASampleMeetsWhatItSentLast) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("samples", [](GroupOptions& options) {
    options.codecs.forward = "aqsgd2";
    options.codecs.min_elements = 1;
    options.ef_slots = 4;
  });
  using Values = std::vector<float>;
  const auto cross = [&](int sample, Values x) {
    Values y(8);
    Outcome send, recv;
    const auto tensor = [](Values& v) {
      return WireTensor{.values = v.data(), .type = ElementType::kF32, .dims = {4, 2}};
    };
    const int tag = KindTag(TensorKind::kActivation, kSampleBit | sample);
    group[1]->Recv(tensor(y), 0, tag, recv.done());
    group[0]->Send(tensor(x), 1, tag, send.done());
    EXPECT_EQ(send.Wait(), absl::OkStatus());
    EXPECT_EQ(recv.Wait(), absl::OkStatus());
    return y;
  };
  const Values a = {1, 2, 3, 4, 5, 6, 7, 8}, b = {0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(cross(7, a), a);  // first visits: values
  EXPECT_EQ(cross(1, b), b);
  // Columns of x - m: {1, -1, .5, 0} and {0, 0, 0, -4}; codes {1, -2, 1, 0} and {0, 0, 0, -2}.
  EXPECT_EQ(cross(7, {2, 2, 2, 4, 5.5f, 6, 7, 4}), (Values{1.5f, 2, 2, 4, 5.5f, 6, 7, 4}));
  // {4, -4, 2, 1} and {1, 1, 1, 1}: codes {1, -2, 1, 0} (0.5 goes to the even 0), and all 1.
  EXPECT_EQ(cross(1, {4, 1, -4, 1, 2, 1, 1, 1}), (Values{2, .5f, -4, .5f, 2, .5f, 0, .5f}));
  EXPECT_EQ(cross(7, {1.5f, 2, 2, 4, 5.5f, 6, 7, 4}), (Values{1.5f, 2, 2, 4, 5.5f, 6, 7, 4}));
}

// A first visit is four times as long as the difference behind it, and their packets interleave.
TEST_P(ReceiverState, ShortDifferencesWaitForTheLongFrameBeforeThem) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("order", With("aqsgd2", 1));
  constexpr size_t kMessages = 5;
  std::vector<std::vector<float>> x, y(kMessages, std::vector<float>(1 << 21));
  std::vector<Outcome> sends(kMessages), recvs(kMessages);
  for (size_t i = 0; i < kMessages; ++i) x.push_back(Noise(1 << 21, 1));
  for (size_t i = 0; i < kMessages; ++i) {
    group[1]->Recv(Tokens(y[i]), 0, 0, recvs[i].done());
    group[0]->Send(Tokens(x[i]), 1, 0, sends[i].done());
  }
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(sends[i].Wait(), absl::OkStatus());
    ASSERT_EQ(recvs[i].Wait(), absl::OkStatus()) << i;
    EXPECT_LT(Error(x[i], y[i]), 1e-6) << i;
  }
}

TEST_P(ReceiverState, WhatAReceiveLostIsRefusedInEveryLaterOne) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("lost", With("aqsgd4", 1));
  std::vector<float> x = Noise(128 * 64, 1), y(x.size()), other(x.size() + 64);
  ASSERT_EQ(Cross(*group[0], *group[1], x, y), absl::OkStatus());
  // A receive of another size takes the message away.
  EXPECT_EQ(Cross(*group[0], *group[1], x = Noise(x.size(), 2), other).code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status status = Cross(*group[0], *group[1], x = Noise(x.size(), 3), y);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a frame was lost"));
}

// The sender knows that its message did not arrive, and starts anew.
TEST_P(ReceiverState, AFailedSendIsFollowedByValues) {
  const Cluster cluster(GetParam(), 2,
                        [](NodeOptions& options) { options.credit_bytes = kMinCreditBytes; });
  const auto group = cluster.MakeGroup("slow", With("aqsgd8", 1));
  std::vector<float> x = Noise(4096 * 64, 1), y(x.size());
  ASSERT_EQ(Cross(*group[0], *group[1], x, y), absl::OkStatus());
  group[0]->SetTimeout(absl::Milliseconds(300));
  std::vector<float> lost = Noise(x.size(), 2);
  Outcome send, recv;
  group[0]->Send(Tokens(lost), 1, 0, send.done());
  EXPECT_EQ(send.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  group[0]->SetTimeout(absl::Seconds(60));
  group[1]->Recv(Tokens(y), 0, 0, recv.done());
  EXPECT_EQ(recv.Wait().code(), absl::StatusCode::kAborted);
  for (uint64_t seed : {3, 4}) {
    ASSERT_EQ(Cross(*group[0], *group[1], x = Noise(x.size(), seed), y), absl::OkStatus());
    EXPECT_LT(Error(x, y), 1e-3);
  }
}

TEST_P(ReceiverState, ATensorThatCannotBeEncodedChangesNeitherEnd) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("nan", With("int4-b64+ef21", 1));
  std::vector<float> x = Noise(128 * 64, 1), y(x.size());
  ASSERT_EQ(Cross(*group[0], *group[1], x, y), absl::OkStatus());
  std::vector<float> bad = x;
  bad[77] = std::numeric_limits<float>::quiet_NaN();
  Outcome send, recv;
  group[1]->Recv(Tokens(y), 0, 0, recv.done());
  group[0]->Send(Tokens(bad), 1, 0, send.done());
  EXPECT_EQ(send.Wait().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(recv.Wait().code(), absl::StatusCode::kAborted);
  const int64_t before = Row(*group[0], 1, true).payload_bytes;
  ASSERT_EQ(Cross(*group[0], *group[1], x, y), absl::OkStatus());
  EXPECT_LT(Error(x, y), 2e-3) << "a second difference, not the first frame again";
  EXPECT_GT(Row(*group[0], 1, true).payload_bytes, before);
}

TEST_P(ReceiverState, SavedStatesGoOnAtBothEnds) {
  const Cluster cluster(GetParam(), 2);
  const auto make = [&](const char* name) {
    return cluster.MakeGroup(name, With("int4-b64+ef21", 2));
  };
  const auto run = [](const std::vector<std::shared_ptr<Group>>& group, int from, int to) {
    std::vector<float> y(128 * 64);
    absl::Status status;
    for (int step = from; step < to && status.ok(); ++step) {
      std::vector<float> x = Noise(y.size(), static_cast<uint64_t>(step));
      status = Cross(*group[0], *group[1], x, y);
    }
    return std::pair(status, y);
  };
  const auto whole = make("whole");
  ASSERT_EQ(run(whole, 0, 5).first, absl::OkStatus());
  std::string saved[2];
  for (size_t r = 0; r < 2; ++r) saved[r] = whole[r]->SaveState().value();
  const auto expected = run(whole, 5, 8);
  ASSERT_EQ(expected.first, absl::OkStatus());

  const auto resumed = make("resumed");
  for (size_t r = 0; r < 2; ++r) ASSERT_EQ(resumed[r]->LoadState(saved[r]), absl::OkStatus());
  EXPECT_EQ(run(resumed, 5, 8), expected);
}

// A neighbour that has saved goes on at once: what it sends next belongs to after this rank's save.
TEST_P(ReceiverState, AMessageThatCameEarlyIsNotPartOfWhatIsSaved) {
  const Cluster cluster(GetParam(), 2);
  for (const char* codec : {"int4-b64+ef21", "int4-b64+sr", "none"}) {
    const std::string name = codec;
    std::vector<float> x[3], y(128 * 64), expected[3];
    for (uint64_t i = 0; i < 3; ++i) x[i] = Noise(y.size(), i);
    std::string saved[2];
    {
      const auto whole = cluster.MakeGroup(name, With(codec, 1));
      ASSERT_EQ(Cross(*whole[0], *whole[1], x[0], y), absl::OkStatus());
      saved[0] = whole[0]->SaveState().value();
      Outcome send;
      whole[0]->Send(Tokens(x[1]), 1, 0, send.done());
      ASSERT_EQ(send.Wait(), absl::OkStatus());
      // Behind another tag's message it has surely come.
      std::vector<float> small(1, 1.0f), taken(1);
      Outcome flush, flushed;
      whole[1]->Recv(F32(taken), 0, 9, flushed.done());
      whole[0]->Send(F32(small), 1, 9, flush.done());
      ASSERT_EQ(flushed.Wait(), absl::OkStatus());
      const auto early = whole[1]->SaveState();
      ASSERT_TRUE(early.ok()) << early.status();
      saved[1] = *early;
      Outcome recv;
      whole[1]->Recv(Tokens(y), 0, 0, recv.done());
      ASSERT_EQ(recv.Wait(), absl::OkStatus());
      expected[1] = y;
      ASSERT_EQ(Cross(*whole[0], *whole[1], x[2], y), absl::OkStatus());
      expected[2] = y;
    }
    const auto resumed = cluster.MakeGroup(name + " resumed", With(codec, 1));
    // The flush is not in what the sender saved: the receiver's channel of that tag is left alone.
    for (size_t r = 0; r < 2; ++r) ASSERT_EQ(resumed[r]->LoadState(saved[r]), absl::OkStatus());
    for (size_t i : {1, 2}) {
      ASSERT_EQ(Cross(*resumed[0], *resumed[1], x[i], y), absl::OkStatus()) << codec;
      EXPECT_EQ(y, expected[i]) << codec << " message " << i;
    }
  }
}

TEST_P(ReceiverState, AStateThatDoesNotFitIsRefusedByNameAndChangesNothing) {
  const Cluster cluster(GetParam(), 2);
  std::vector<float> x = Noise(128 * 64, 1), y(x.size()), expected(x.size());
  const auto group = cluster.MakeGroup("one", With("int4-b64+ef21", 2));
  ASSERT_EQ(Cross(*group[0], *group[1], x, expected), absl::OkStatus());
  const std::string saved = group[0]->SaveState().value();
  const auto refused = [&](const char* codec, int slots, std::string state) {
    const auto fresh = cluster.MakeGroup(codec + std::to_string(slots), With(codec, slots));
    const absl::Status status = fresh[0]->LoadState(state);
    EXPECT_EQ(fresh[0]->CheckState(state), status);
    EXPECT_EQ(Cross(*fresh[0], *fresh[1], x, y),
              absl::OkStatus());  // it starts from the first message
    return status;
  };
  const absl::Status codec = refused("int8-b64+ef21", 2, saved);
  EXPECT_EQ(codec.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(codec.message()), testing::AllOf(HasSubstr("forward=int4-b64+ef21"),
                                                           HasSubstr("forward=int8-b64+ef21")));
  const absl::Status slots = refused("int4-b64+ef21", 1, saved);
  EXPECT_THAT(std::string(slots.message()),
              testing::AllOf(HasSubstr("ef_slots=2"), HasSubstr("ef_slots=1")));
  for (size_t bytes : {size_t{0}, size_t{3}, size_t{40}, saved.size() / 2, saved.size() - 1}) {
    EXPECT_EQ(refused("int4-b64+ef21", 2, saved.substr(0, bytes)).code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(y, expected);
  EXPECT_EQ(group[0]->LoadState(saved).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(ReceiverState, SamplingForNmseGoesOnWhereItWas) {
  const Cluster cluster(GetParam(), 2);
  const auto every_third = [&](GroupOptions& options) {
    With("int4-b64", 1)(options);
    options.nmse_every = 3;
  };
  std::vector<float> x = Noise(128 * 64, 1), y(x.size());
  const auto group = cluster.MakeGroup("a", every_third);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Cross(*group[0], *group[1], x, y), absl::OkStatus());
  const auto resumed = cluster.MakeGroup("b", every_third);
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_EQ(resumed[r]->LoadState(group[r]->SaveState().value()), absl::OkStatus());
  }
  // Of messages 0, 1 | 2, 3 the 0th and the 3rd.
  EXPECT_EQ(Row(*group[0], 1, true).nmse_samples, 1);
  for (const int64_t samples : {0, 1}) {
    ASSERT_EQ(Cross(*resumed[0], *resumed[1], x, y), absl::OkStatus());
    EXPECT_EQ(Row(*resumed[0], 1, true).nmse_samples, samples);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ReceiverState, testing::ValuesIn(AllTransports()),
                         TransportName);

}  // namespace
}  // namespace longhaul
