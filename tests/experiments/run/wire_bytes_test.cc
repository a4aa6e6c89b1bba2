// What was counted on the links against what was sent: golden bytes, and bounds from both sides.
#include "experiments/run/wire_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

RunSpec SmallSpec() {
  RunSpec spec{};
  spec.model = {{.blocks = 4, .width = 64, .heads = 4, .context = 32, .vocab = 256}};
  spec.train.steps = 10;
  spec.train.batch_rows = 8;
  spec.train.microbatches = 2;
  spec.schedule = {"1f1b", 2};
  spec.boundary = {"int8-b64", "none", 0};
  return spec;
}

// 4 rows x 32 tokens x 64 wide = 8192 elements a micro-batch, 128 blocks of 64; 20 messages.
// int8-b64: 64-byte header, 128 bf16 scales, 8192 codes; 112-byte packet header.
constexpr int64_t kForward = 20 * (112 + 64 + 256 + 8192);
constexpr int64_t kBackward = 20 * (112 + 4 * 8192);
constexpr int64_t kTransport = 20 * 13;

std::vector<CrossingRow> BothWays() {
  CrossingRow row{};
  row.src_rank = 0;
  row.dst_rank = 1;
  row.direction = Direction::kForward;
  row.tensors = 20;
  row.message_bytes = kForward;
  CrossingRow back = row;
  back.src_rank = 1;
  back.dst_rank = 0;
  back.direction = Direction::kBackward;
  back.message_bytes = kBackward;
  return {row, back};
}

PathCount Path(int64_t payload, int64_t packets) {
  return {.packets = packets, .bytes = payload + 66 * packets};
}

TEST(WireBytes, WithoutACountAreFramesAndHeadersAndAcknowledgements) {
  std::vector<CrossingRow> rows = BothWays();
  EXPECT_TRUE(FillWireBytes(SmallSpec(), {}, rows).ok());
  const double forward = kForward + kTransport, backward = kBackward + kTransport;
  EXPECT_NEAR(*rows[0].predicted_wire_bytes, forward + (forward + backward / 2) / 1448 * 66, 1);
  EXPECT_NEAR(*rows[1].predicted_wire_bytes, backward + (backward + forward / 2) / 1448 * 66, 1);
  EXPECT_EQ(rows[0].kernel_tx_bytes, std::nullopt);
  EXPECT_EQ(rows[0].kernel_rx_bytes, std::nullopt);
}

TEST(WireBytes, AreThoseOfTheirOwnPathWithAHeaderForEveryCountedFrame) {
  std::vector<CrossingRow> rows = BothWays();
  WireCounts counts;
  counts.paths[{0, 1}] = Path(kForward + kTransport, 300);
  counts.paths[{1, 0}] = Path(kBackward + kTransport, 700);
  counts.nodes[0] = {.received = 500'000, .delivered = 500'000};
  counts.nodes[1] = {.received = 100'000, .delivered = 100'000};
  const absl::Status judged = FillWireBytes(SmallSpec(), counts, rows);
  EXPECT_TRUE(judged.ok()) << judged;
  EXPECT_EQ(rows[0].kernel_tx_bytes, kForward + kTransport + 66 * 300);
  EXPECT_EQ(rows[0].predicted_wire_bytes, rows[0].kernel_tx_bytes);
  EXPECT_EQ(rows[0].kernel_rx_bytes, rows[0].kernel_tx_bytes);
  EXPECT_EQ(rows[1].kernel_tx_bytes, kBackward + kTransport + 66 * 700);
  EXPECT_EQ(rows[1].predicted_wire_bytes, rows[1].kernel_tx_bytes);
}

TEST(WireBytes, EachBoundaryHasTheBytesOfItsPair) {
  RunSpec spec = SmallSpec();
  spec.schedule.stages = 4;
  spec.boundary = {"none", "none", 0, {{1, {"int8-b64", "none"}}}};
  std::vector<CrossingRow> rows = {BothWays()[0], BothWays()[0], BothWays()[1]};
  rows[1].src_rank = rows[2].dst_rank = 1;
  rows[1].dst_rank = rows[2].src_rank = 2;
  EXPECT_TRUE(FillWireBytes(spec, {}, rows).ok());
  const double coded = kForward + kTransport, raw = kBackward + kTransport;
  EXPECT_NEAR(*rows[0].predicted_wire_bytes, raw + raw / 1448 * 66, 1);
  EXPECT_NEAR(*rows[1].predicted_wire_bytes, coded + (coded + raw / 2) / 1448 * 66, 1);
  EXPECT_NEAR(*rows[2].predicted_wire_bytes, raw + (raw + coded / 2) / 1448 * 66, 1);
}

// Two stages: what a tied head sends once a step goes over the boundary's path; 256 x 64 floats, in
// pieces of 64 kB. The path's rows have what was predicted and counted on it, together.
TEST(WireBytes, ATiedHeadSharesThePathOfTheOnlyBoundary) {
  RunSpec spec = SmallSpec();
  spec.model.kind = "llama";
  spec.model.tied_head = true;
  std::vector<CrossingRow> rows = BothWays();
  for (const size_t way : {0, 1}) {
    CrossingRow tied = rows[way];
    tied.direction = Direction::kTied;
    tied.tensors = 10;
    tied.message_bytes = 10 * (112 + 4 * 256 * 64);
    rows.push_back(tied);
  }
  constexpr int64_t kTied = 10 * (112 + 4 * 256 * 64 + 13 + 29);
  WireCounts counts;
  counts.paths[{0, 1}] = Path(kForward + kTransport + kTied, 700);
  counts.paths[{1, 0}] = Path(kBackward + kTransport + kTied, 1100);
  const absl::Status judged = FillWireBytes(spec, counts, rows);
  EXPECT_TRUE(judged.ok()) << judged;
  for (const size_t row : {0, 2}) {
    EXPECT_EQ(rows[row].predicted_wire_bytes, kForward + kTransport + kTied + 66 * 700);
    EXPECT_EQ(rows[row].kernel_tx_bytes, rows[row].predicted_wire_bytes);
  }
  for (const size_t row : {1, 3}) {
    EXPECT_EQ(rows[row].predicted_wire_bytes, kBackward + kTransport + kTied + 66 * 1100);
  }
  // Without them the path has too much.
  std::vector<CrossingRow> without = BothWays();
  const absl::Status more = FillWireBytes(spec, counts, without);
  EXPECT_THAT(std::string(more.message()), HasSubstr("path 0 > 1: "));
}

// Of four stages the ends have a path of their own.
TEST(WireBytes, ATiedHeadsPathIsJudgedLikeABoundarys) {
  RunSpec spec = SmallSpec();
  spec.schedule.stages = 4;
  spec.model.kind = "llama";
  spec.model.tied_head = true;
  CrossingRow tied = BothWays()[0];
  tied.dst_rank = 3;
  tied.direction = Direction::kTied;
  tied.tensors = 10;
  tied.message_bytes = 10 * (112 + 4 * 256 * 64);
  std::vector<CrossingRow> rows = {tied};
  WireCounts counts;
  counts.paths[{0, 3}] = Path(10 * (112 + 4 * 256 * 64 + 13 + 29), 600);
  EXPECT_TRUE(FillWireBytes(spec, counts, rows).ok());
  EXPECT_EQ(rows[0].predicted_wire_bytes, rows[0].kernel_tx_bytes);
  counts.paths[{0, 3}].bytes *= 2;
  EXPECT_THAT(std::string(FillWireBytes(spec, counts, rows).message()), HasSubstr("path 0 > 3: "));
}

TEST(WireBytes, HeartbeatsCountByTheTimeTheyWereSent) {
  RunSpec spec = SmallSpec();
  spec.net.peer_deadline_s = 5;  // one a second, 112 + 13 bytes
  std::vector<CrossingRow> rows = BothWays();
  WireCounts counts;
  counts.paths[{0, 1}] = {.seconds = 400, .bytes = 1};
  (void)FillWireBytes(spec, counts, rows);
  EXPECT_EQ(rows[0].predicted_wire_bytes, kForward + kTransport + 400 * 125);
}

// Bounds: half a percent and 4096 bytes, and a frame for each drop.
TEST(WireBytes, JustInsideTheBoundIsOkAndJustOutsideIsNot) {
  for (const int64_t drops : {0, 3}) {
    for (const int sign : {-1, 1}) {
      for (const bool inside : {true, false}) {
        const int64_t payload = kForward + kTransport, frames = 66 * 300;
        const auto bound = static_cast<int64_t>(0.005 * static_cast<double>(payload + frames)) +
                           4096 + 1514 * drops;
        std::vector<CrossingRow> rows = BothWays();
        WireCounts counts;
        counts.paths[{0, 1}] = {.packets = 300,
                                .bytes = payload + frames + sign * (bound + (inside ? -1 : 2)),
                                .drops_queue = drops};
        const absl::Status judged = FillWireBytes(SmallSpec(), counts, rows);
        EXPECT_EQ(judged.ok(), inside) << drops << sign << judged;
        if (!inside) {
          EXPECT_THAT(std::string(judged.message()), HasSubstr("path 0 > 1: "));
        }
      }
    }
  }
}

// Of group 1 of two, ranks 2 and 3, on the path between them.
struct Elastic {
  RunSpec spec = SmallSpec();
  std::vector<CrossingRow> rows = BothWays();
  WireCounts counts;

  Elastic() {
    spec.outer.groups = 2;
    spec.outer.inner_steps = 5;
    spec.outer.on_group_loss = "continue";
    for (CrossingRow& row : rows) {
      row.src_rank += 2;
      row.dst_rank += 2;
    }
  }
  // `more` bytes than were sent, norms included: two outer steps.
  absl::Status Judge(int64_t more, const WirePart& part) {
    const int64_t norms = 2 * (112 + 8 * 2 + 13);
    counts.paths[{2, 3}] = Path(kForward + kTransport + norms + more, 300);
    return FillWireBytes(spec, counts, rows, part);
  }
};

TEST(WireBytes, APathOfAGroupThatCameOrWentIsJudgedForWhatLacksAlone) {
  EXPECT_TRUE(Elastic().Judge(0, {}).ok());
  EXPECT_FALSE(Elastic().Judge(50'000, {}).ok()) << "nobody was lost";
  EXPECT_TRUE(Elastic().Judge(50'000, {.came_or_went = {1}}).ok());
  EXPECT_FALSE(Elastic().Judge(50'000, {.came_or_went = {0}}).ok()) << "another group was";
  EXPECT_FALSE(Elastic().Judge(-50'000, {.came_or_went = {1}}).ok());
}

TEST(WireBytes, WhichPathsAreJudgedForWhatLacksAloneIsSaid) {
  Elastic run;
  ASSERT_TRUE(run.Judge(0, {}).ok());
  EXPECT_EQ(JudgedForLackAlone(run.spec, run.counts, run.rows, {}), "");
  EXPECT_EQ(JudgedForLackAlone(run.spec, run.counts, run.rows, {.came_or_went = {1}}),
            "1 of 1: those of node 0, where the store is, and of groups that came or went: 1");
}

TEST(WireBytes, OfAnExchangeInVainNothingNeedHaveCrossed) {
  Elastic run;
  for (CrossingRow& row : run.rows) row.direction = Direction::kOuter;
  // Of ten exchanges with two messages each, one in vain.
  const auto judged = [&](int64_t exchanges) {
    std::vector<CrossingRow> rows = run.rows;
    run.counts.paths[{2, 3}] = Path((kForward + kTransport) / 10 * exchanges, 300);
    return FillWireBytes(run.spec, run.counts, rows, {.repeated_exchanges = 1}).ok();
  };
  EXPECT_TRUE(judged(10));
  EXPECT_TRUE(judged(9));
  EXPECT_FALSE(judged(8));
  EXPECT_FALSE(judged(11));
}

TEST(WireBytes, NothingIsPredictedOfARunWhoseGroupsCameOrWent) {
  Elastic run;
  ASSERT_TRUE(run.Judge(0, {.came_or_went = {1}, .as_planned = false}).ok());
  EXPECT_EQ(run.rows[0].predicted_wire_bytes, std::nullopt);
  EXPECT_EQ(run.rows[0].kernel_tx_bytes, run.counts.paths.at({2, 3}).bytes);
}

TEST(WireBytes, AnInterfaceThatSawOtherBytesThanTheEmulatorIsNamed) {
  std::vector<CrossingRow> rows = BothWays();
  WireCounts counts;
  counts.nodes[1] = {.received = 1'022'000, .delivered = 1'000'000};
  const absl::Status judged = FillWireBytes(SmallSpec(), counts, rows);
  EXPECT_EQ(judged.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(judged.message()),
      HasSubstr("interface of node 1: 1022000 bytes counted, 1000000 accounted for, +2.20 %"));
}

TEST(WireCounts, EventsComeToTheirOwnPathAndNode) {
  WireCounts counts;
  counts.Observe({{"event", "path"},
                  {"from", 2},
                  {"to", 5},
                  {"bytes", 70},
                  {"packets", 1},
                  {"drops_queue", 3},
                  {"drops_loss", 4},
                  {"seconds", 1.5}});
  counts.Observe({{"event", "node"}, {"node", 5}, {"received", 8}, {"delivered", 9}});
  ASSERT_EQ(counts.paths.count({2, 5}), 1u);
  EXPECT_EQ(counts.paths.size(), 1u);
  const PathCount& path = counts.paths.at({2, 5});
  EXPECT_EQ(path.bytes, 70);
  EXPECT_EQ(path.packets, 1);
  EXPECT_EQ(path.drops_queue, 3);
  EXPECT_EQ(path.drops_loss, 4);
  EXPECT_EQ(path.seconds, 1.5);
  EXPECT_EQ(counts.nodes.at(5).received, 8);
  EXPECT_EQ(counts.nodes.at(5).delivered, 9);
}

}  // namespace
}  // namespace longhaul
