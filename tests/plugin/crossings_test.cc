// What a group counts: a row for each codec and kind, and a word when a codec was asked for in vain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/core/packet.h"
#include "plugin/core/tensor_kind.h"
#include "tests/plugin/transport_cases.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

class Crossings : public testing::TestWithParam<TransportKind> {};

constexpr TensorKind kActivation = TensorKind::kActivation, kGradient = TensorKind::kGradient;

void Cross(Group& from, Group& to, std::vector<float>& x, int tag) {
  std::vector<float> y(x.size());
  Outcome send, recv;
  to.Recv(F32(y), from.options().rank, tag, recv.done());
  from.Send(F32(x), to.options().rank, tag, send.done());
  ASSERT_EQ(send.Wait(), absl::OkStatus());
  ASSERT_EQ(recv.Wait(), absl::OkStatus());
}

// Those that counted something, as text.
std::vector<std::string> Rows(const Group& group) {
  std::vector<std::string> rows;
  for (const CrossingCounters& row : group.counters()) {
    if (row.tensors == 0) continue;
    rows.push_back((row.sent ? "to " : "from ") + std::to_string(row.peer) + " " + row.codec + " " +
                   std::string(row.kind ? ToString(*row.kind) : "-") + " " +
                   std::to_string(row.tensors) + "x" + std::to_string(row.elements));
  }
  return rows;
}

TEST_P(Crossings, ARowForEachCodecAndKind) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", [](GroupOptions& options) {
    options.codecs.forward = "int4-b64-h64";
    options.codecs.backward = "int8-b64+ef";
    options.codecs.by_tag = {{9, "int8-b64"}};
  });
  std::vector<float> x = Noise(8192, 1), small = Noise(100, 2);
  // Of an interleaved schedule: both kinds from one rank to the same other one.
  Cross(*group[0], *group[1], x, KindTag(kActivation, 0));
  Cross(*group[0], *group[1], x, KindTag(kGradient, 1));
  Cross(*group[0], *group[1], x, KindTag(kGradient, 1));
  Cross(*group[0], *group[1], x, 0);      // an activation by the order of ranks
  Cross(*group[0], *group[1], x, 9);      // a codec by its tag, no kind
  Cross(*group[0], *group[1], small, 0);  // exact, and nothing says its kind
  Cross(*group[0], *group[1], small, KindTag(kGradient, 1));
  Cross(*group[1], *group[0], x, 0);  // a gradient by the order of ranks
  EXPECT_THAT(
      Rows(*group[0]),
      testing::ElementsAre("to 1 none - 1x100", "to 1 int8-b64 - 1x8192",
                           "to 1 int4-b64-h64 activation 2x16384", "to 1 none gradient 1x100",
                           "to 1 int8-b64+ef gradient 2x16384", "from 1 int8-b64 gradient 1x8192"));
  EXPECT_THAT(
      Rows(*group[1]),  // a frame does not say what its sender kept
      testing::ElementsAre("to 0 int8-b64+ef gradient 1x8192", "from 0 none - 1x100",
                           "from 0 int8-b64 - 1x8192", "from 0 int4-b64-h64 activation 2x16384",
                           "from 0 none gradient 1x100", "from 0 int8-b64 gradient 2x16384"));
  for (const CrossingCounters& row : group[0]->counters()) {
    const double bits = 8.0 * static_cast<double>(row.payload_bytes) /
                        static_cast<double>(std::max<int64_t>(1, row.elements));
    if (row.codec == "int4-b64-h64") {
      EXPECT_NEAR(bits, 4.25, 0.1);
    } else if (row.codec != "none") {
      EXPECT_NEAR(bits, 8.25, 0.1);
    }
  }
  const std::vector<CrossingCounters> totals = TotalsByPeer(group[0]->counters());
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].tensors, 7);
  EXPECT_EQ(totals[0].elements, 5 * 8192 + 200);
  EXPECT_EQ(totals[0].payload_hash, TotalsByPeer(group[1]->counters())[1].payload_hash);
}

TEST_P(Crossings, NoKindWhereTheOrderOfRanksTellsNone) {
  const Cluster cluster(GetParam(), 3);
  const auto ranks = cluster.MakeGroup("ranks", [](GroupOptions& options) {
    options.codecs.forward = options.codecs.backward = "bf16";
  });
  const auto tags = cluster.MakeGroup("tags", [](GroupOptions& options) {
    options.codecs.forward = options.codecs.backward = "bf16";
    options.codecs.unnamed_kind = CodecPolicy::UnnamedKind::kRefused;
  });
  std::vector<float> x = Noise(8192, 1);
  Cross(*ranks[0], *ranks[1], x, 0);
  Cross(*ranks[0], *ranks[2], x, 0);  // where a loop closes
  Cross(*tags[0], *tags[1], x, 0);
  EXPECT_THAT(Rows(*ranks[0]),
              testing::ElementsAre("to 1 bf16 activation 1x8192", "to 2 bf16 - 1x8192"));
  EXPECT_THAT(Rows(*tags[0]), testing::ElementsAre("to 1 bf16 - 1x8192"));
}

TEST_P(Crossings, MeasuredErrorsAndCollectivesHaveTheirRows) {
  const Cluster cluster(GetParam(), 2);
  const auto group = cluster.MakeGroup("pp", [](GroupOptions& options) {
    options.codecs.forward = "int4-b64-h64";
    options.codecs.backward = "int8-b64";
    options.nmse_every = 1;
  });
  std::vector<float> x = Noise(8192, 1);
  Cross(*group[0], *group[1], x, KindTag(kActivation, 0));
  Cross(*group[0], *group[1], x, KindTag(kGradient, 0));
  Outcome sums[2];
  std::vector<float> a(10), b(10);
  group[0]->AllReduce(F32(a), ReduceOp::kSum, sums[0].done());
  group[1]->AllReduce(F32(b), ReduceOp::kSum, sums[1].done());
  for (Outcome& sum : sums) ASSERT_EQ(sum.Wait(), absl::OkStatus());
  const std::vector<CrossingCounters> rows = group[0]->counters();
  ASSERT_EQ(rows.size(), 4u);  // exact, activation, gradient; and exact from the other
  EXPECT_EQ(rows[0].codec, "none");
  EXPECT_GT(rows[0].collective_bytes, 0);
  EXPECT_EQ(rows[0].nmse_samples, 0);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(rows[i].nmse_samples, 1) << i;
    EXPECT_EQ(rows[i].collective_bytes, 0) << i;
  }
  EXPECT_GT(rows[1].nmse_sum, 10 * rows[2].nmse_sum);  // 4 bits against 8: 6 dB each
}

TEST_P(Crossings, AGroupThatEncodedNothingSaysTheLargestAndWhatToDo) {
  const Cluster cluster(GetParam(), 2);
  const auto opted = cluster.MakeGroup("pp", [](GroupOptions& options) {
    options.codecs.forward = "int4-b64-h64";
    options.codecs.backward = "none";
    options.codecs.min_elements = 5000;
  });
  const auto lossless = cluster.MakeGroup("plain", [](GroupOptions&) {});
  EXPECT_EQ(opted[0]->NothingEncoded(), "") << "nothing was sent";
  std::vector<float> small = Noise(700, 1), longer = Noise(4999, 2), enough = Noise(5000, 3);
  for (const auto* group : {&opted, &lossless}) {
    Cross(*(*group)[0], *(*group)[1], longer, 0);
    Cross(*(*group)[0], *(*group)[1], small, 0);
    Cross(*(*group)[1], *(*group)[0], longer, 0);
  }
  const std::string said = opted[0]->NothingEncoded();
  for (const char* words : {"group 'pp'", "int4-b64-h64", "encoded nothing", "min_elements = 5000",
                            "the longest has 4999", "min_elements=4999"}) {
    EXPECT_THAT(said, HasSubstr(words));
  }
  EXPECT_EQ(opted[1]->NothingEncoded(), "") << "its direction has no codec";
  EXPECT_EQ(lossless[0]->NothingEncoded(), "") << "it has no codec at all";
  Cross(*opted[0], *opted[1], enough, 0);
  EXPECT_EQ(opted[0]->NothingEncoded(), "") << "one was encoded";
}

INSTANTIATE_TEST_SUITE_P(Transports, Crossings, testing::ValuesIn(AllTransports()), TransportName);

}  // namespace
}  // namespace longhaul
