#include "experiments/estimates/step_time.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Pipeline Make(std::string_view schedule, int stages, int microbatches, StageCost cost,
              BoundaryLink link) {
  const size_t boundaries = static_cast<size_t>(stages) - 1;
  return {schedule, microbatches, std::vector<StageCost>(static_cast<size_t>(stages), cost),
          std::vector<BoundaryLink>(boundaries, link), std::vector<BoundaryLink>(boundaries, link)};
}

// A link that is busy `busy_s` per message.
BoundaryLink Busy(double busy_s, double delay_s) {
  return {1000, 8 * kWireFactor * 1000 / busy_s, delay_s};
}

TEST(PredictStep, OneStageIsItsComputeAndOptimizer) {
  const Pipeline p = Make("1f1b", 1, 4, {.forward_s = 1, .backward_s = 2, .optimizer_s = 0.5}, {});
  EXPECT_DOUBLE_EQ(*PredictStepSeconds(p), 4 * 3 + 0.5);
}

TEST(PredictStep, KnowsEveryScheduleOfTheTableAndNoOther) {
  for (const std::string& name : ScheduleNames()) {
    Pipeline p = Make(name, 4, 4, {.forward_s = 1}, {1, kInfinity, 0});
    const Schedule schedule = *FindSchedule(name);
    p.program = ProgramOf(schedule, 4 / schedule.least_chunks, 4);
    EXPECT_TRUE(PredictStepSeconds(p).ok()) << name;
  }
  const auto unknown = PredictStepSeconds(Make("1f1", 2, 4, {.forward_s = 1}, {1, kInfinity, 0}));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), testing::HasSubstr("known: gpipe, 1f1b"));
}

// Two ranks of two stages, one micro-batch, F = 1, B = 2, wires of 3 and 10: the path crosses three
// boundaries each way, 4 (1 + 2) + 6 (3 + 10), and each rank ends with its two stages' optimizers. In
// a V stages 1 and 2 are on one rank, so that it crosses two.
TEST(PredictStep, OfSeveralStagesARankByHand) {
  Pipeline p =
      Make("looped-bfs", 4, 1, {.forward_s = 1, .backward_s = 2, .optimizer_s = 0.25}, Busy(3, 10));
  p.program = ProgramOf(*FindSchedule("looped-bfs"), 2, 1);
  EXPECT_NEAR(*PredictStepSeconds(p), 4 * 3 + 6 * 13 + 2 * 0.25, 1e-9);
  // Its slots: one of each rank, (M + P - 1), with two stages' compute and twice the messages.
  EXPECT_NEAR(SerialSlotSeconds(p), 2 * (2 * 3 + 2 * (2 * 3 / kWireFactor + 20) * 1.05), 1e-9);
  p.program = ProgramOf(*FindSchedule("zb-v"), 2, 1);
  EXPECT_NEAR(*PredictStepSeconds(p), 4 * 3 + 4 * 13 + 2 * 0.25, 1e-9);
}

// Without links both schedules have the textbook bubble: (M + S - 1) (F + B).
TEST(PredictStep, FreeLinksGiveTheTextbookBubble) {
  const StageCost cost{.forward_s = 1, .backward_s = 2};
  for (const std::string_view schedule : {"gpipe", "1f1b"}) {
    for (const int stages : {2, 3, 4, 8}) {
      for (const int microbatches : {1, 4, 8}) {
        const Pipeline p = Make(schedule, stages, microbatches, cost, {1, kInfinity, 0});
        EXPECT_NEAR(*PredictStepSeconds(p), (microbatches + stages - 1) * 3.0, 1e-9)
            << schedule << " S=" << stages << " M=" << microbatches;
      }
    }
  }
}

// S = 2, M = 1: F, encode, wire, delay, decode, F, B, encode, wire, delay, decode, B, optimizer.
TEST(PredictStep, OneMicrobatchIsTheSumAlongItsPath) {
  const StageCost cost{
      .forward_s = 1, .backward_s = 2, .encode_s = 0.1, .decode_s = 0.2, .optimizer_s = 0.3};
  const Pipeline p = Make("1f1b", 2, 1, cost, Busy(0.5, 4));
  EXPECT_NEAR(*PredictStepSeconds(p),
              1 + 0.1 + 0.5 + 4 + 0.2 + 1 + 2 + 0.1 + 0.5 + 4 + 0.2 + 2 + 0.3, 1e-9);
}

// GPipe, S = 2, M = 2, F = 1, B = 1, link busy 3 per message, delay 10. By hand:
// stage 0 forwards end 1, 2; wire 1-4, 4-7; arrive 14, 17.
// stage 1: F0 14-15, F1 17-18, B0 18-19, B1 19-20; wire 19-22, 22-25; arrive 32, 35.
// stage 0: B0 32-33, B1 35-36.
TEST(PredictStep, GPipeByHandWithABusyLink) {
  const Pipeline p = Make("gpipe", 2, 2, {.forward_s = 1, .backward_s = 1}, Busy(3, 10));
  EXPECT_NEAR(*PredictStepSeconds(p), 36, 1e-9);
}

// 1F1B, S = 2, M = 2, the same costs.
// stage 0 F0 0-1, F1 1-2; arrive 14, 17. stage 1: F0 14-15, B0 15-16, F1 17-18, B1 18-19;
// wire 16-19, 19-22; arrive 29, 32. stage 0: B0 29-30, B1 32-33.
TEST(PredictStep, OneForwardOneBackwardByHandWithABusyLink) {
  const Pipeline p = Make("1f1b", 2, 2, {.forward_s = 1, .backward_s = 1}, Busy(3, 10));
  EXPECT_NEAR(*PredictStepSeconds(p), 33, 1e-9);
}

// The wire is the bottleneck: M messages each way follow each other, the fill is one of each.
TEST(PredictStep, SaturatedLinkTakesItsBusyTime) {
  const Pipeline p = Make("gpipe", 2, 8, {.forward_s = 0.01, .backward_s = 0.01}, Busy(5, 1));
  // forward wire 0.01 + 8*5, delay, F, then backwards one by one behind it, delay, B.
  EXPECT_NEAR(*PredictStepSeconds(p), 0.01 + 40 + 1 + 0.02 + 40 + 1 + 0.01, 1e-9);
}

TEST(PredictStep, KappaCountsTheHeadersOfEveryPacket) {
  Pipeline p = Make("gpipe", 2, 1, {}, {.message_bytes = 1448e3, .rate_bit_per_s = 8e6});
  EXPECT_NEAR(*PredictStepSeconds(p), 2 * 1.514, 1e-9);
  EXPECT_NEAR(MessageSeconds(p.forward[0]), 1.514, 1e-12);
}

// S = 2, M = 1, no compute: there and back 2 (3 + 10). The head's part enters the wire behind the
// gradient and leaves at 23, is there at 33; the lookups' part leaves at 33, is there at 43. So the
// first stage begins again at 33, and what it sends arrives after the last one's 43, at 46.
TEST(PredictStep, ATiedHeadIsAnotherExchangeBeforeTheUpdate) {
  Pipeline p = Make("gpipe", 2, 1, {}, Busy(3, 10));
  EXPECT_NEAR(*PredictStepSeconds(p), 26, 1e-9);
  p.tied = {Busy(7, 10), Busy(7, 10)};
  EXPECT_NEAR(*PredictStepSeconds(p), 33, 1e-9);
  // One delay of 100 more: the head's part is at the first stage at 123.
  p.tied = {Busy(7, 100), Busy(7, 100)};
  EXPECT_NEAR(*PredictStepSeconds(p), 123, 1e-9);
}

TEST(SerialSlot, FormulaOfThePlanner) {
  const Pipeline p = Make("1f1b", 4, 8, {.forward_s = 1, .backward_s = 2},
                          {.message_bytes = 1e6, .rate_bit_per_s = 8e6, .one_way_delay_s = 0.03});
  // t_c = 3, t_x = 2, RTT = 0.06, f(4) = 1.1
  EXPECT_NEAR(SerialSlotSeconds(p), 11 * (3 + 2.06 * 1.1), 1e-9);
}

// The rule's own record: 64 micro-batches both ways make 128 messages of 0.671 s and a delay of
// 0.05 s for a rank in the middle: 92.3 s. A wire for each direction would carry both at once.
TEST(OneWire, ARankInTheMiddleTakesItsMessagesOneAfterTheOther) {
  const double bytes = 0.671 * 200e6 / 8;
  const double busy = 128 * (0.671 + 0.05);
  EXPECT_NEAR(busy, 92.3, 0.05);
  for (const std::string_view schedule : {"gpipe", "1f1b"}) {
    const Pipeline p = Make(schedule, 4, 64, {}, {bytes, 200e6, 0.05});
    EXPECT_GE(*OneWireSeconds(p), busy - 1e-6) << schedule;
  }
  // In 1F1B both directions flow at the same time: full-duplex wires take less than one can.
  const Pipeline both = Make("1f1b", 8, 64, {}, {bytes, 200e6, 0});
  EXPECT_GE(*OneWireSeconds(both), 128 * 0.671 - 1e-6);
  EXPECT_LT(*PredictStepSeconds(both) / kWireFactor, 128 * 0.671 - 1);
  // Two ranks: each is sent one direction alone.
  const Pipeline two = Make("gpipe", 2, 64, {}, {bytes, 200e6, 0});
  EXPECT_NEAR(*OneWireSeconds(two), 128 * 0.671, 1e-6);
}

TEST(OneWire, WithoutLinksItIsTheBubbleToo) {
  const Pipeline p = Make("1f1b", 4, 8, {.forward_s = 1, .backward_s = 2}, {1, kInfinity, 0});
  EXPECT_NEAR(*OneWireSeconds(p), 11 * 3.0, 1e-9);
}

}  // namespace
}  // namespace longhaul
