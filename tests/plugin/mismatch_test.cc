// Ranks of a group that call different collectives: every rank hears of it, by name, and the group
// goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <tuple>

#include "absl/time/clock.h"
#include "plugin/core/collective_call.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kMany = 70000;  // floats: several packets, and beyond small allreduces

// One rank's call, what it is named in messages, and memory for it.
struct Call {
  std::string name;
  std::function<void(Group&, std::vector<float>&, std::vector<float>&, Group::Done)> run;
};

WireTensor Of(std::vector<float>& memory, size_t count, ElementType type = ElementType::kF32) {
  return {.values = memory.data(), .type = type, .dims = {static_cast<int64_t>(count)}};
}

Call AllReduceOf(size_t count, ReduceOp op, ElementType type, std::string name) {
  return {std::move(name), [=](Group& g, auto& x, auto&, Group::Done done) {
            g.AllReduce(Of(x, count, type), op, std::move(done));
          }};
}
Call BroadcastOf(size_t count, int root, ElementType type, std::string name) {
  return {std::move(name), [=](Group& g, auto& x, auto&, Group::Done done) {
            g.Broadcast(Of(x, count, type), root, std::move(done));
          }};
}
Call AllGatherOf(size_t count, std::string name) {
  return {std::move(name), [=](Group& g, auto& x, auto& y, Group::Done done) {
            g.AllGather(Of(x, count), Of(y, count * static_cast<size_t>(g.options().size)),
                        std::move(done));
          }};
}
Call AllToAllOf(size_t each, ElementType type, std::string name) {
  return {std::move(name), [=](Group& g, auto& x, auto& y, Group::Done done) {
            const auto size = static_cast<size_t>(g.options().size);
            const std::vector<int64_t> counts(size, static_cast<int64_t>(each));
            g.AllToAll(Of(x, each * size, type), counts, Of(y, each * size, type), counts,
                       std::move(done));
          }};
}

std::vector<Call> Calls() {
  using enum ElementType;
  return {AllReduceOf(5, ReduceOp::kSum, kF32, "allreduce(sum, f32 x 5)"),
          AllReduceOf(5, ReduceOp::kMax, kF32, "allreduce(max, f32 x 5)"),
          AllReduceOf(5, ReduceOp::kSum, kI32, "allreduce(sum, i32 x 5)"),
          AllReduceOf(6, ReduceOp::kSum, kF32, "allreduce(sum, f32 x 6)"),
          AllReduceOf(kMany, ReduceOp::kSum, kF32, "allreduce(sum, f32 x 70000)"),
          BroadcastOf(5, 0, kF32, "broadcast(root 0, f32 x 5)"),
          BroadcastOf(5, 1, kF32, "broadcast(root 1, f32 x 5)"),
          BroadcastOf(10, 0, kF16, "broadcast(root 0, f16 x 10)"),
          BroadcastOf(kMany, 0, kF32, "broadcast(root 0, f32 x 70000)"),
          AllGatherOf(5, "allgather(f32 x 5 of each rank)"),
          AllGatherOf(kMany, "allgather(f32 x 70000 of each rank)"),
          AllToAllOf(5, kF32, "alltoall(f32)"),
          AllToAllOf(5, kI32, "alltoall(i32)"),
          {"barrier()", [](Group& g, auto&, auto&, Group::Done done) { g.Barrier(done); }}};
}

class Mismatch : public testing::TestWithParam<std::tuple<TransportKind, int>> {
 protected:
  Mismatch()
      : size(static_cast<size_t>(std::get<1>(GetParam()))),
        cluster(std::get<0>(GetParam()), std::get<1>(GetParam())),
        group(cluster.MakeGroup("mixed")),
        x(size, std::vector<float>(kMany)),
        y(size, std::vector<float>(kMany * size)) {}

  // All ranks as they should: the group goes on.
  void ExpectSum() {
    std::vector<Outcome> outcomes(size);
    for (size_t r = 0; r < size; ++r) {
      std::fill_n(x[r].begin(), 3, static_cast<float>(r + 1));
      group[r]->AllReduce(Of(x[r], 3), ReduceOp::kSum, outcomes[r].done());
    }
    for (size_t r = 0; r < size; ++r) {
      ASSERT_EQ(outcomes[r].Wait(), absl::OkStatus());
      EXPECT_EQ(x[r][2], static_cast<float>(size * (size + 1) / 2));
    }
  }

  const size_t size;
  const Cluster cluster;
  const std::vector<std::shared_ptr<Group>> group;
  std::vector<std::vector<float>> x, y;
};

// Each call by one rank, another by all the others; the odd one is first, then last to come.
TEST_P(Mismatch, EveryPairOfCallsFailsOnEveryRankByName) {
  const std::vector<Call> calls = Calls();
  for (size_t odd_call = 0; odd_call < calls.size(); ++odd_call) {
    for (size_t call = 0; call < calls.size(); ++call) {
      if (call == odd_call) continue;
      const size_t odd = (call + odd_call) % size;
      std::vector<Outcome> outcomes(size);
      for (size_t i = 0; i < size; ++i) {
        const size_t r = (odd + i + call % 2) % size;
        const Call& mine = calls[r == odd ? odd_call : call];
        mine.run(*group[r], x[r], y[r], outcomes[r].done());
      }
      for (size_t r = 0; r < size; ++r) {
        const absl::Status status = outcomes[r].Wait();
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << r << ": " << status;
        EXPECT_THAT(
            std::string(status.message()),
            AllOf(HasSubstr(" calls " + calls[call].name),
                  HasSubstr("rank " + std::to_string(odd) + " calls " + calls[odd_call].name)))
            << r;
        EXPECT_EQ(outcomes[r].calls(), 1);
      }
    }
    ExpectSum();
  }
}

// The root has nothing to wait for but the others' calls.
TEST_P(Mismatch, ABroadcastEndsOnlyWhenAllHaveComeToIt) {
  std::vector<Outcome> outcomes(size);
  for (size_t r = 0; r + 1 < size; ++r) {
    group[r]->Broadcast(Of(x[r], 5), 0, outcomes[r].done());
  }
  absl::SleepFor(absl::Milliseconds(30));
  for (size_t r = 0; r + 1 < size; ++r) EXPECT_FALSE(outcomes[r].finished()) << r;
  group[size - 1]->Broadcast(Of(x[size - 1], 5), 0, outcomes[size - 1].done());
  for (size_t r = 0; r < size; ++r) EXPECT_EQ(outcomes[r].Wait(), absl::OkStatus());
}

// Every single pair that disagrees, by the sender's count or the receiver's.
TEST_P(Mismatch, AllToAllCountsOfOnePairThatDisagreeFailOnEveryRank) {
  for (size_t from = 0; from < size; ++from) {
    for (size_t to = 0; to < size; ++to) {
      if (from == to) continue;
      for (const int64_t extra : {1, -2}) {
        std::vector<Outcome> outcomes(size);
        for (size_t r = 0; r < size; ++r) {
          std::vector<int64_t> sends(size, 2), receives(size, 2);
          if (r == to) receives[from] += extra;
          const auto total =
              static_cast<size_t>(2 * static_cast<int64_t>(size) + (r == to ? extra : 0));
          group[r]->AllToAll(Of(x[r], 2 * size), sends, Of(y[r], total), receives,
                             outcomes[r].done());
        }
        for (size_t r = 0; r < size; ++r) {
          const absl::Status status = outcomes[r].Wait();
          EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << r << ": " << status;
          if (r != from && r != to) continue;  // the others may have it from the sum alone
          EXPECT_THAT(
              std::string(status.message()),
              HasSubstr("rank " + std::to_string(from) + " sends 2 elements to rank " +
                        std::to_string(to) + ", which expects " + std::to_string(2 + extra)));
        }
      }
    }
  }
  ExpectSum();
}

INSTANTIATE_TEST_SUITE_P(Transports, Mismatch,
                         testing::Combine(testing::ValuesIn(AllTransports()),
                                          testing::Values(2, 3, 4)),
                         [](const auto& info) {
                           return (std::get<0>(info.param) == TransportKind::kUcx ? "Ucx"
                                                                                  : "Loopback") +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(CollectiveCall, StandsInTheHeaderWhereTheLayoutSays) {
  PacketHeader header;
  const CollectiveCall call{.kind = CollectiveKind::kBroadcast,
                            .operation = ReduceOp::kMax,
                            .type = ElementType::kI64,
                            .root = -2,
                            .count = 0x0102030405060708,
                            .expected = 9,
                            .balance = 10};
  WriteCall(call, header);
  EXPECT_EQ(header.dims[0], 0x00080401u);  // i64, max, broadcast
  EXPECT_EQ(header.dims[1], 0xFFFFFFFEu);
  EXPECT_EQ(header.dims[2], 0x05060708u);
  EXPECT_EQ(header.dims[3], 0x01020304u);
  EXPECT_EQ(header.dims[4], 9u);
  EXPECT_EQ(header.dims[6], 10u);
  const auto back = ReadCall(header);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(back->Fits(call));
  for (const uint32_t bad : {0x00080400u, 0x000804FFu, 0x00080801u, 0x00140401u, 0x01080401u}) {
    header.dims[0] = bad;
    EXPECT_FALSE(ReadCall(header).has_value()) << bad;
  }
}

}  // namespace
}  // namespace longhaul
