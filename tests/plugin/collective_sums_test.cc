// Group's collectives that add up for one rank or in parts, over every transport: values against
// sums taken here in rank order, bytes against the closed form of collectives.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr int64_t kHeader = 112;

// In rank order, from the first.
std::vector<float> Sum(const std::vector<std::vector<float>>& inputs) {
  std::vector<float> sum = inputs[0];
  for (size_t r = 1; r < inputs.size(); ++r) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += inputs[r][i];
  }
  return sum;
}

class SumInParts : public testing::TestWithParam<std::tuple<TransportKind, int>> {
 protected:
  size_t size() const { return static_cast<size_t>(std::get<1>(GetParam())); }
  std::vector<std::shared_ptr<Group>> MakeGroup() { return cluster_.MakeGroup("sums"); }
  std::vector<std::vector<float>> Inputs(size_t count) const {
    std::vector<std::vector<float>> inputs;
    for (size_t r = 0; r < size(); ++r) inputs.push_back(Noise(count, 300 + r));
    return inputs;
  }
  static int64_t CollectiveBytes(const Group& group) {
    int64_t bytes = 0;
    for (const CrossingCounters& row : group.counters())
      bytes += row.sent ? row.collective_bytes : 0;
    return bytes;
  }

 private:
  const Cluster cluster_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(SumInParts, ReduceScatterGivesEveryRankItsPartOfTheSum) {
  const auto group = MakeGroup();
  // Even and uneven parts, some of nothing, some of several packets.
  for (const size_t scale : {size_t{0}, size_t{1}, size_t{40000}}) {
    std::vector<int64_t> counts;
    size_t total = 0;
    for (size_t r = 0; r < size(); ++r) {
      counts.push_back(static_cast<int64_t>(scale * ((r + 2) % 3)));
      total += scale * ((r + 2) % 3);
    }
    auto in = Inputs(total);
    const std::vector<float> sum = Sum(in);
    const auto before = in;
    std::vector<std::vector<float>> out(size());
    std::vector<Outcome> outcomes(size());
    for (size_t r = 0; r < size(); ++r) {
      out[r].resize(static_cast<size_t>(counts[r]));
      group[r]->ReduceScatter(F32(in[r]), counts, F32(out[r]), ReduceOp::kSum, outcomes[r].done());
    }
    auto part = sum.begin();
    for (size_t r = 0; r < size(); ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      ASSERT_EQ(out[r], std::vector<float>(part, part + counts[r])) << "rank " << r;
      part += counts[r];
    }
    EXPECT_EQ(in, before);
  }
}

TEST_P(SumInParts, ReduceScatterMayWriteIntoItsOwnPart) {
  const auto group = MakeGroup();
  constexpr size_t kPart = 1000;
  auto in = Inputs(kPart * size());
  const std::vector<float> sum = Sum(in);
  std::vector<Outcome> outcomes(size());
  for (size_t r = 0; r < size(); ++r) {
    const WireTensor own{.values = in[r].data() + r * kPart,
                         .type = ElementType::kF32,
                         .dims = {static_cast<int64_t>(kPart)}};
    group[r]->ReduceScatter(F32(in[r]), std::vector<int64_t>(size(), kPart), own, ReduceOp::kSum,
                            outcomes[r].done());
  }
  for (size_t r = 0; r < size(); ++r) {
    ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
    for (size_t i = r * kPart; i < (r + 1) * kPart; ++i) ASSERT_EQ(in[r][i], sum[i]);
  }
}

TEST_P(SumInParts, ReduceGivesTheRootTheSumAndLeavesTheOthersAlone) {
  const auto group = MakeGroup();
  for (size_t root = 0; root < size(); ++root) {
    // Both sides of the limit for small tensors; one that the ranks do not divide.
    for (const size_t count : {size_t{0}, size_t{5}, size_t{2048}, size_t{2049}, size_t{100003}}) {
      auto values = Inputs(count);
      auto expected = values;
      expected[root] = Sum(values);
      std::vector<Outcome> outcomes(size());
      for (size_t r = 0; r < size(); ++r) {
        group[r]->Reduce(F32(values[r]), static_cast<int>(root), ReduceOp::kSum,
                         outcomes[r].done());
      }
      for (size_t r = 0; r < size(); ++r) ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      ASSERT_EQ(values, expected) << "root " << root << " count " << count;
    }
  }
}

TEST_P(SumInParts, SendTheBytesOfTheTable) {
  const auto group = MakeGroup();
  const auto n = static_cast<int64_t>(size());
  const auto spent = [&](size_t rank, const auto& start) {
    const int64_t before = CollectiveBytes(*group[rank]);
    std::vector<Outcome> outcomes(size());
    for (size_t r = 0; r < size(); ++r) start(r, outcomes[r].done());
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.Wait(), absl::OkStatus());
    return CollectiveBytes(*group[rank]) - before;
  };
  // 1200 n elements: all divide, each message is one packet.
  constexpr int64_t kPart = 1200;
  auto x = Inputs(static_cast<size_t>(kPart * n));
  std::vector<float> part(kPart);
  std::vector<std::vector<float>> out(size(), part);
  const int64_t part_bytes = 4 * kPart;
  EXPECT_EQ(spent(size() - 1,
                  [&](size_t r, Group::Done done) {
                    group[r]->ReduceScatter(F32(x[r]), std::vector<int64_t>(size(), kPart),
                                            F32(out[r]), ReduceOp::kMax, done);
                  }),
            (n - 1) * (part_bytes + kHeader));
  // Of a rank that is not the root: the whole tensor, in n messages; of two ranks in one.
  const int64_t messages = n == 2 ? 1 : n;
  EXPECT_EQ(spent(size() - 1,
                  [&](size_t r, Group::Done done) {
                    group[r]->Reduce(F32(x[r]), 0, ReduceOp::kMax, done);
                  }),
            n == 1 ? 0 : n * part_bytes + messages * kHeader);
}

INSTANTIATE_TEST_SUITE_P(Transports, SumInParts,
                         testing::Combine(testing::ValuesIn(AllTransports()),
                                          testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return (std::get<0>(info.param) == TransportKind::kUcx ? "Ucx"
                                                                                  : "Loopback") +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(SumInParts, RanksThatCutDifferentlyAreAllTold) {
  const Cluster cluster(TransportKind::kLoopback, 3);
  const auto group = cluster.MakeGroup("cut");
  std::vector<std::vector<float>> in(3, std::vector<float>(6)), out(3);
  std::vector<Outcome> outcomes(3);
  for (size_t r = 0; r < 3; ++r) {
    std::vector<int64_t> counts = {2, 2, 2};
    if (r == 1) counts = {1, 2, 3};
    out[r].resize(2);
    group[r]->ReduceScatter(F32(in[r]), counts, F32(out[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) {
    const absl::Status status = outcome.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("cut the 6 elements into different parts"));
  }
}

TEST(SumInParts, ArgumentsThatDoNotFitAreRefusedAtOnce) {
  const Cluster cluster(TransportKind::kLoopback, 2);
  const auto group = cluster.MakeGroup("arguments");
  std::vector<float> four(4), three(3);
  Outcome counts, part, root, bits;
  group[0]->ReduceScatter(F32(four), {2, 3}, F32(three), ReduceOp::kSum, counts.done());
  EXPECT_THAT(std::string(counts.Wait().message()), HasSubstr("counts [2, 3] do not cut f32[4]"));
  group[0]->ReduceScatter(F32(four), {2, 2}, F32(three), ReduceOp::kSum, part.done());
  EXPECT_THAT(std::string(part.Wait().message()), HasSubstr("its part is f32 x 2, not f32[3]"));
  group[1]->Reduce(F32(four), 2, ReduceOp::kSum, root.done());
  EXPECT_THAT(std::string(root.Wait().message()), HasSubstr("reduce to rank 2 on rank 1 of group"));
  group[1]->Reduce(F32(four), 0, ReduceOp::kBAnd, bits.done());
  EXPECT_THAT(std::string(bits.Wait().message()), HasSubstr("no band of f32"));
}

}  // namespace
}  // namespace longhaul
