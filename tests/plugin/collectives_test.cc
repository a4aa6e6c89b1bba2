// The contract of Group's collectives, over every transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "plugin/core/reduce.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Collective : public testing::TestWithParam<std::tuple<TransportKind, int>> {
 protected:
  TransportKind kind() const { return std::get<0>(GetParam()); }
  size_t size() const { return static_cast<size_t>(std::get<1>(GetParam())); }
  std::vector<std::vector<float>> Inputs(size_t count) const {
    std::vector<std::vector<float>> inputs;
    for (size_t r = 0; r < size(); ++r) inputs.push_back(Noise(count, 100 + r));
    return inputs;
  }
};

TEST_P(Collective, BroadcastGivesEveryRankTheRootsValues) {
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("broadcast");
  for (size_t root = 0; root < size(); ++root) {
    for (const size_t count : {size_t{0}, size_t{5}, size_t{100000}}) {
      std::vector<std::vector<float>> values = Inputs(count);
      const std::vector<float> expected = values[root];
      std::vector<Outcome> outcomes(size());
      for (size_t r = 0; r < size(); ++r) {
        group[r]->Broadcast(F32(values[r]), static_cast<int>(root), outcomes[r].done());
      }
      for (size_t r = 0; r < size(); ++r) {
        ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
        ASSERT_EQ(values[r], expected) << "rank " << r << " root " << root;
      }
    }
  }
}

TEST_P(Collective, AllReduceAddsUpInRankOrderOnEveryRank) {
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("allreduce");
  // Both sides of the small-message limit, and counts that the ranks do not divide.
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{2047}, size_t{100003}}) {
    std::vector<std::vector<float>> values = Inputs(count);
    std::vector<float> expected = values[0];
    for (size_t r = 1; r < size(); ++r) {
      for (size_t i = 0; i < count; ++i) expected[i] += values[r][i];
    }
    std::vector<Outcome> outcomes(size());
    for (size_t r = 0; r < size(); ++r) {
      group[r]->AllReduce(F32(values[r]), ReduceOp::kSum, outcomes[r].done());
    }
    for (size_t r = 0; r < size(); ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      ASSERT_EQ(values[r], expected) << "rank " << r << " count " << count;
    }
  }
}

TEST_P(Collective, AllGatherPutsEveryRanksValuesInRankOrder) {
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("allgather");
  for (const size_t count : {size_t{0}, size_t{3}, size_t{70001}}) {
    std::vector<std::vector<float>> in = Inputs(count), out(size());
    std::vector<float> expected;
    for (const auto& part : in) expected.insert(expected.end(), part.begin(), part.end());
    std::vector<Outcome> outcomes(size());
    for (size_t r = 0; r < size(); ++r) {
      out[r].resize(count * size());
      group[r]->AllGather(F32(in[r]), F32(out[r]), outcomes[r].done());
    }
    for (size_t r = 0; r < size(); ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      ASSERT_EQ(out[r], expected);
    }
  }
}

TEST_P(Collective, AllGatherBytesGivesEveryRankWhatEachBrings) {
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("bytes");
  std::vector<std::vector<std::byte>> in(size());
  for (size_t r = 0; r < size(); ++r) in[r].assign(r * 200000, std::byte(r + 1));  // rank 0: none
  std::vector<std::shared_ptr<Group::Gathered>> out(size());
  std::vector<Outcome> outcomes(size());
  for (size_t r = 0; r < size(); ++r) {
    out[r] = std::make_shared<Group::Gathered>();
    group[r]->AllGatherBytes(in[r], in.back().size(), out[r], outcomes[r].done());
  }
  for (size_t r = 0; r < size(); ++r) {
    ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
    ASSERT_EQ(*out[r], in);
  }
}

TEST_P(Collective, AllGatherBytesRefusesARankThatBringsMoreThanThereCanBe) {
  if (size() == 1) return;
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("too much");
  const std::vector<std::byte> few(10), many(11);
  std::vector<std::shared_ptr<Group::Gathered>> out(size());
  std::vector<Outcome> outcomes(size());
  for (size_t r = 0; r < size(); ++r) {
    out[r] = std::make_shared<Group::Gathered>();
    group[r]->AllGatherBytes(r == 1 ? many : few, 10, out[r], outcomes[r].done());
  }
  for (size_t r = 0; r < size(); ++r) {
    EXPECT_THAT(std::string(outcomes[r].Wait().message()),
                HasSubstr("rank 1 brings 11 bytes, at most 10 are possible"));
    if (r != 1) {
      EXPECT_TRUE((*out[r])[1].empty()) << r;  // nothing was allocated
    }
  }
}

TEST_P(Collective, AllToAllGivesEveryRankWhatIsMeantForIt) {
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("alltoall");
  // Element i of what rank s has for rank d.
  const auto value = [](size_t s, size_t d, int64_t i) {
    return static_cast<int64_t>(1000000 * s + 100000 * d) + i;
  };
  for (const int64_t scale : {0, 1, 9001}) {  // 9001: parts of several packets
    const auto count = [&](size_t s, size_t d) {
      return scale * static_cast<int64_t>((3 * s + 5 * d) % 4);  // some are empty
    };
    std::vector<std::vector<int64_t>> in(size()), out(size()), want(size());
    std::vector<Outcome> outcomes(size());
    for (size_t r = 0; r < size(); ++r) {
      std::vector<int64_t> sends, receives;
      for (size_t p = 0; p < size(); ++p) {
        sends.push_back(count(r, p));
        receives.push_back(count(p, r));
        for (int64_t i = 0; i < count(r, p); ++i) in[r].push_back(value(r, p, i));
        for (int64_t i = 0; i < count(p, r); ++i) want[r].push_back(value(p, r, i));
      }
      out[r].resize(want[r].size());
      group[r]->AllToAll(Tensor1D(in[r], ElementType::kI64), sends,
                         Tensor1D(out[r], ElementType::kI64), receives, outcomes[r].done());
    }
    for (size_t r = 0; r < size(); ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      ASSERT_EQ(out[r], want[r]) << "rank " << r << " scale " << scale;
    }
  }
}

TEST_P(Collective, SeveralMayBeUnderWayAndTheBarrierWaitsForAll) {
  const Cluster cluster(kind(), static_cast<int>(size()));
  const auto group = cluster.MakeGroup("many");
  constexpr int kRounds = 5;
  std::vector<std::vector<int64_t>> values(size(), std::vector<int64_t>(kRounds));
  std::vector<Outcome> sums(size() * kRounds), barriers(size());
  for (size_t r = 0; r < size(); ++r) {
    EXPECT_FALSE(size() > 1 && barriers[0].finished()) << "rank " << r << " has not come yet";
    for (int k = 0; k < kRounds; ++k) {
      values[r][static_cast<size_t>(k)] = static_cast<int64_t>(r) + k;
      group[r]->AllReduce(
          {.values = &values[r][static_cast<size_t>(k)], .type = ElementType::kI64, .dims = {}},
          ReduceOp::kMax, sums[r * kRounds + static_cast<size_t>(k)].done());
    }
    group[r]->Barrier(barriers[r].done());
  }
  for (const Outcome& outcome : sums) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
  for (const Outcome& outcome : barriers) ASSERT_EQ(outcome.Wait(), absl::OkStatus());
  for (size_t r = 0; r < size(); ++r) {
    for (int k = 0; k < kRounds; ++k) {
      EXPECT_EQ(values[r][static_cast<size_t>(k)], static_cast<int64_t>(size()) - 1 + k);
    }
  }
}

class CollectiveFault : public testing::TestWithParam<TransportKind> {};

TEST_P(CollectiveFault, AMismatchFailsOnEveryRank) {
  const Cluster cluster(GetParam(), 3);
  const auto group = cluster.MakeGroup("mismatch");
  std::vector<std::vector<float>> values(3, std::vector<float>(4));
  values[0].resize(3);
  std::vector<Outcome> outcomes(3);
  for (size_t r = 0; r < 3; ++r) {
    group[r]->AllReduce(F32(values[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (size_t r = 0; r < 3; ++r) {
    const absl::Status status = outcomes[r].Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << r;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 calls allreduce(sum, f32 x 3)"))
        << r;
    EXPECT_THAT(std::string(status.message()), HasSubstr("calls allreduce(sum, f32 x 4)")) << r;
    EXPECT_EQ(outcomes[r].calls(), 1);
  }
}

TEST_P(CollectiveFault, AllToAllCountsThatCannotBe) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("uneven");
  std::vector<float> in(3), out(4);
  Outcome refused, negative;
  group[0]->AllToAll(F32(in), {1, 1}, F32(out), {1, 3}, refused.done());
  EXPECT_THAT(std::string(refused.Wait().message()), HasSubstr("send counts [1, 1] do not cut"));
  group[0]->AllToAll(F32(in), {4, -1}, F32(out), {4, 0}, negative.done());
  EXPECT_EQ(negative.Wait().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Transports, Collective,
                         testing::Combine(testing::ValuesIn(AllTransports()),
                                          testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return (std::get<0>(info.param) == TransportKind::kUcx ? "Ucx"
                                                                                  : "Loopback") +
                                  std::to_string(std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Transports, CollectiveFault, testing::ValuesIn(AllTransports()),
                         TransportName);

template <typename T>
std::vector<T> Reduced(ElementType type, ReduceOp op, std::vector<std::vector<T>> inputs) {
  std::vector<const std::byte*> sources;
  for (auto& input : inputs) sources.push_back(reinterpret_cast<std::byte*>(input.data()));
  std::vector<T> out(inputs[0].size());
  ReduceInOrder(type, op, sources, out.size(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(Reduce, HalfPrecisionAddsUpInSinglePrecisionAndRoundsOnce) {
  // 256 + 1 + 1 in bf16 (8 bits): stepwise rounding gives 256, rounding once gives 258.
  EXPECT_EQ(Reduced<uint16_t>(ElementType::kBF16, ReduceOp::kSum, {{0x4380}, {0x3F80}, {0x3F80}}),
            std::vector<uint16_t>{0x4381});
  // 2048 + 1 + 1 in f16 (11 bits).
  EXPECT_EQ(Reduced<uint16_t>(ElementType::kF16, ReduceOp::kSum, {{0x6800}, {0x3C00}, {0x3C00}}),
            std::vector<uint16_t>{0x6801});
  // 65504 + 65504 overflows to infinity, of either sign.
  EXPECT_EQ(
      Reduced<uint16_t>(ElementType::kF16, ReduceOp::kSum, {{0x7BFF, 0xFBFF}, {0x7BFF, 0xFBFF}}),
      (std::vector<uint16_t>{0x7C00, 0xFC00}));
}

TEST(Reduce, IntegersWrapAndBoolsAreLogical) {
  EXPECT_EQ(Reduced<int8_t>(ElementType::kI8, ReduceOp::kSum, {{127}, {1}}),
            std::vector<int8_t>{-128});
  EXPECT_EQ(Reduced<int16_t>(ElementType::kI16, ReduceOp::kProduct, {{-3, 300}, {5, 300}}),
            (std::vector<int16_t>{-15, 24464}));
  EXPECT_EQ(Reduced<int32_t>(ElementType::kI32, ReduceOp::kMin, {{-5, 7}, {3, 6}}),
            (std::vector<int32_t>{-5, 6}));
  EXPECT_EQ(Reduced<uint16_t>(ElementType::kU16, ReduceOp::kSum, {{65535, 40000}, {2, 20000}}),
            (std::vector<uint16_t>{1, 60000}));
  EXPECT_EQ(Reduced<uint16_t>(ElementType::kU16, ReduceOp::kProduct, {{65535}, {65535}}),
            std::vector<uint16_t>{1});  // in int it would overflow
  EXPECT_EQ(Reduced<uint64_t>(ElementType::kU64, ReduceOp::kMax, {{UINT64_MAX}, {1}}),
            std::vector<uint64_t>{UINT64_MAX});
  EXPECT_EQ(Reduced<int64_t>(ElementType::kI64, ReduceOp::kBXor, {{6}, {3}}),
            std::vector<int64_t>{5});
  EXPECT_EQ(Reduced<uint8_t>(ElementType::kBool, ReduceOp::kSum, {{1, 0, 1}, {1, 0, 0}}),
            (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(Reduced<uint8_t>(ElementType::kBool, ReduceOp::kProduct, {{1, 0, 1}, {1, 0, 0}}),
            (std::vector<uint8_t>{1, 0, 0}));
}

TEST(Reduce, AverageDividesTheSum) {
  EXPECT_EQ(Reduced<float>(ElementType::kF32, ReduceOp::kAvg, {{1, 2}, {2, 2}, {4, 3}}),
            (std::vector<float>{7.0f / 3.0f, 7.0f / 3.0f}));
  EXPECT_EQ(Reduced<double>(ElementType::kF64, ReduceOp::kMax, {{1, -2}, {0, 5}}),
            (std::vector<double>{1, 5}));
}

TEST(Reduce, SenselessCombinationsAreRefused) {
  EXPECT_FALSE(CheckReduce(ElementType::kF32, ReduceOp::kBAnd).ok());
  EXPECT_FALSE(CheckReduce(ElementType::kI64, ReduceOp::kAvg).ok());
  EXPECT_FALSE(CheckReduce(ElementType::kComplex64, ReduceOp::kMin).ok());
  EXPECT_TRUE(CheckReduce(ElementType::kComplex64, ReduceOp::kSum).ok());
  EXPECT_TRUE(CheckReduce(ElementType::kBool, ReduceOp::kBOr).ok());
  EXPECT_FALSE(CheckReduce(ElementType::kF8E4M3, ReduceOp::kSum).ok());
  EXPECT_TRUE(CheckReduce(ElementType::kU16, ReduceOp::kSum).ok());
}

}  // namespace
}  // namespace longhaul
