// Gather and scatter over every transport: which values go where, and how many bytes that takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Rooted : public testing::TestWithParam<std::tuple<TransportKind, int>> {
 protected:
  size_t size() const { return static_cast<size_t>(std::get<1>(GetParam())); }
  // Element i of what belongs to rank r.
  static int64_t Value(size_t r, size_t i) { return static_cast<int64_t>(1000000 * r + i); }
  static std::vector<int64_t> Of(size_t r, size_t count) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < count; ++i) values.push_back(Value(r, i));
    return values;
  }
  std::vector<int64_t> OfAll(size_t count) const {
    std::vector<int64_t> values;
    for (size_t r = 0; r < size(); ++r) {
      for (size_t i = 0; i < count; ++i) values.push_back(Value(r, i));
    }
    return values;
  }
  static WireTensor I64(std::vector<int64_t>& values) {
    return Tensor1D(values, ElementType::kI64);
  }
  std::vector<WireTensor> I64Parts(std::vector<int64_t>& values) const {
    return PartsOf(values, size(), ElementType::kI64);
  }
};

TEST_P(Rooted, GatherGivesTheRootAllInRankOrder) {
  const Cluster cluster(std::get<0>(GetParam()), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("gather");
  std::vector<int64_t> none;
  for (size_t root = 0; root < size(); ++root) {
    for (const size_t count : {size_t{0}, size_t{3}, size_t{50001}}) {
      std::vector<std::vector<int64_t>> in;
      std::vector<int64_t> out(count * size());
      for (size_t r = 0; r < size(); ++r) in.push_back(Of(r, count));
      std::vector<Outcome> outcomes(size());
      for (size_t r = 0; r < size(); ++r) {
        group[r]->Gather(I64(in[r]), I64Parts(r == root ? out : none), static_cast<int>(root),
                         outcomes[r].done());
      }
      for (size_t r = 0; r < size(); ++r) ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      ASSERT_EQ(out, OfAll(count)) << "root " << root << " count " << count;
    }
  }
}

TEST_P(Rooted, ScatterGivesEveryRankItsPart) {
  const Cluster cluster(std::get<0>(GetParam()), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("scatter");
  std::vector<int64_t> none;
  for (size_t root = 0; root < size(); ++root) {
    for (const size_t count : {size_t{0}, size_t{3}, size_t{50001}}) {
      std::vector<std::vector<int64_t>> out(size(), std::vector<int64_t>(count));
      std::vector<int64_t> in = OfAll(count);
      std::vector<Outcome> outcomes(size());
      for (size_t r = 0; r < size(); ++r) {
        group[r]->Scatter(I64Parts(r == root ? in : none), I64(out[r]), static_cast<int>(root),
                          outcomes[r].done());
      }
      for (size_t r = 0; r < size(); ++r) {
        ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
        ASSERT_EQ(out[r], Of(r, count)) << "rank " << r << " root " << root;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Rooted,
                         testing::Combine(testing::ValuesIn(AllTransports()),
                                          testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return (std::get<0>(info.param) == TransportKind::kUcx ? "Ucx"
                                                                                  : "Loopback") +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(Rooted, WhatIsNotTheRootsGoesNowhere) {
  const Cluster cluster(TransportKind::kLoopback, 3);
  const auto group = cluster.MakeGroup("bytes");
  std::vector<std::vector<float>> in(3, std::vector<float>(100));
  std::vector<float> out(300), none;
  std::vector<Outcome> outcomes(3);
  for (size_t r = 0; r < 3; ++r) {
    group[r]->Gather(F32(in[r]), F32Parts(r == 1 ? out : none, 3), 1, outcomes[r].done());
  }
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
    for (const CrossingCounters& row : group[r]->counters()) {
      const bool values = (row.sent ? row.peer : static_cast<int>(r)) == 1;
      EXPECT_EQ(row.collective_bytes, 112 + (values ? 400 : 0)) << r << " and " << row.peer;
    }
  }
}

TEST(Rooted, DifferentRootsAreNamedOnEveryRank) {
  const Cluster cluster(TransportKind::kLoopback, 3);
  const auto group = cluster.MakeGroup("roots");
  std::vector<std::vector<float>> in(3, std::vector<float>(2));
  std::vector<float> out(6), other(6);
  std::vector<Outcome> outcomes(3);
  group[0]->Gather(F32(in[0]), F32Parts(out, 3), 0, outcomes[0].done());
  group[1]->Gather(F32(in[1]), F32Parts(other, 3), 1, outcomes[1].done());
  group[2]->Gather(F32(in[2]), F32Parts(other, 3), 1, outcomes[2].done());
  for (const Outcome& outcome : outcomes) {
    const absl::Status status = outcome.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("calls gather(root 0, f32 x 2)"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("calls gather(root 1, f32 x 2)"));
  }
}

TEST(Rooted, ArgumentsThatDoNotFitAreRefusedAtOnce) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto group = cluster.MakeGroup("arguments");
  std::vector<float> two(2), three(3), four(4);
  Outcome count, size, root;
  group[0]->Gather(F32(two), {F32(two)}, 0, count.done());
  EXPECT_THAT(std::string(count.Wait().message()), HasSubstr("1 tensors for 2 ranks"));
  group[0]->Gather(F32(two), {F32(two), F32(three)}, 0, size.done());
  EXPECT_THAT(std::string(size.Wait().message()), HasSubstr("f32[3] of rank 1 is not like f32[2]"));
  group[0]->Scatter(F32Parts(four, 2), F32(two), -1, root.done());
  EXPECT_THAT(std::string(root.Wait().message()), HasSubstr("scatter from rank -1"));
}

}  // namespace
}  // namespace longhaul
