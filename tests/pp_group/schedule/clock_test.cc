// The clock: closed forms, and drawn programs and costs against the equations that it solves, solved here
// without an order of events.
#include "pp_group/schedule/clock.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

using Stage = PipelineCosts::Stage;

Action F(int stage, int m = 0) { return {stage, Op::kForward, m}; }
Action B(int stage, int m = 0) { return {stage, Op::kBackward, m}; }

PipelineProgram Named(const char* name, int ranks, int microbatches, int depth = 1) {
  const Schedule schedule = *FindSchedule(name);
  return ProgramOf(schedule, {.ranks = ranks,
                              .chunks = schedule.least_chunks,
                              .microbatches = microbatches,
                              .depth = depth});
}

double Period(const PipelineProgram& program, const Stage& stage, const Wire& wire = {},
              const PipelineCosts::Rank& rank = {}, LinkPolicy links = LinkPolicy::kFullDuplex) {
  PipelineCosts costs = PipelineCosts::Of(program, stage, wire);
  costs.ranks.assign(program.ranks.size(), rank);
  return *StepPeriod(program, costs, links);
}

TEST(StepPeriod, OneStageIsItsComputeAndOptimizer) {
  EXPECT_DOUBLE_EQ(Period(Named("1f1b", 1, 4), {1, 2}, {}, {.step_s = 0.5}), 4 * 3 + 0.5);
}

// Two ranks of two stages, one micro-batch, F = 1, B = 2, wires of 3 and 10: the path crosses three
// boundaries each way, 4 (1 + 2) + 6 (3 + 10). In a V stages 1 and 2 are on one rank, so it crosses two.
TEST(StepPeriod, OfSeveralStagesARankByHand) {
  const Wire wire{.busy_s = 3, .delay_s = 10};
  const PipelineProgram looped = Named("looped-bfs", 2, 1);
  EXPECT_DOUBLE_EQ(Period(looped, {1, 2}, wire, {.step_s = 0.5}), 4 * 3 + 6 * 13 + 0.5);
  EXPECT_DOUBLE_EQ(Period(Named("zb-v", 2, 1), {1, 2, 2, 0}, wire, {.step_s = 0.5}),
                   4 * 3 + 4 * 13 + 0.5);
  // Its slots: one of each rank, (M + P - 1), with two stages' compute and twice the messages.
  EXPECT_DOUBLE_EQ(Period(looped, {1, 2}, wire, {}, LinkPolicy::kSerialSlots),
                   2 * (2 * 3 + 2 * (2 * 3 + 20) * 1.05));
}

TEST(StepPeriod, FreeLinksGiveTheTextbookBubbleUnderBothRules) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const int ranks : {2, 3, 4, 8}) {
      for (const int m : {1, 4, 8}) {
        for (const auto links : {LinkPolicy::kFullDuplex, LinkPolicy::kOneAReceiver}) {
          EXPECT_DOUBLE_EQ(Period(Named(schedule, ranks, m), {1, 2}, {}, {}, links),
                           (m + ranks - 1) * 3.0);
        }
      }
    }
  }
}

// F, encode, wire, delay, decode, F, B, encode, wire, delay, decode, B, update.
TEST(StepPeriod, OneMicrobatchIsTheSumAlongItsPath) {
  EXPECT_NEAR(Period(Named("1f1b", 2, 1), {1, 2}, {.busy_s = 0.5, .delay_s = 4},
                     {.encode_s = 0.1, .decode_s = 0.2, .step_s = 0.3}),
              2 * (1 + 2 + 0.1 + 0.5 + 4 + 0.2) + 0.3, 1e-9);
}

// S = 2, M = 2, F = B = 1, a link busy 3 a message, delay 10. GPipe: forwards end 1, 2; the wire 1-4, 4-7; there
// 14, 17; F0 14-15, F1 17-18, B0 18-19, B1 19-20; the wire 19-22, 22-25; there 32, 35; B1 35-36. 1F1B: F0 14-15,
// B0 15-16, F1 17-18, B1 18-19; the wire 16-19, 19-22; there 29, 32; B1 32-33. Of 8 messages that take 5 each
// the wire is the bottleneck.
TEST(StepPeriod, ABusyLinkByHand) {
  const Wire wire{.busy_s = 3, .delay_s = 10};
  EXPECT_DOUBLE_EQ(Period(Named("gpipe", 2, 2), {1, 1}, wire), 36);
  EXPECT_DOUBLE_EQ(Period(Named("1f1b", 2, 2), {1, 1}, wire), 33);
  EXPECT_NEAR(Period(Named("gpipe", 2, 8), {0.01, 0.01}, {.busy_s = 5, .delay_s = 1}),
              0.01 + 40 + 1 + 0.02 + 40 + 1 + 0.01, 1e-9);
}

// S = 2, M = 1, no compute: there and back 2 (3 + 10). The head's part enters the wire behind the
// gradient and leaves at 23, is there at 33; the lookups' part leaves at 33, is there at 43. So the
// first stage begins again at 33, and what it sends arrives after the last one's 43, at 46. With a delay
// of 100 the head's part is at the first stage at 123.
TEST(StepPeriod, ATiedHeadIsAnotherExchangeBeforeTheUpdate) {
  const PipelineProgram program = Named("gpipe", 2, 1);
  PipelineCosts costs = PipelineCosts::Of(program, {}, {.busy_s = 3, .delay_s = 10});
  EXPECT_DOUBLE_EQ(*StepPeriod(program, costs), 26);
  for (const auto& [delay_s, step_s] : {std::pair(10.0, 33.0), {100.0, 123.0}}) {
    const Wire wire{.busy_s = 7, .delay_s = delay_s};
    costs.tied = {wire, wire};
    EXPECT_DOUBLE_EQ(*StepPeriod(program, costs), step_s);
  }
}

// t_c = 3, t_x = 2, RTT = 0.06, 1 + 0.05 log2 4 = 1.1.
TEST(SerialSlots, FormulaOfThePlanner) {
  EXPECT_NEAR(Period(Named("1f1b", 4, 8), {1, 2}, {.busy_s = 1, .delay_s = 0.03}, {},
                     LinkPolicy::kSerialSlots),
              11 * (3 + 2.06 * 1.1), 1e-9);
}

// The rule's own record: 64 micro-batches both ways make 128 messages of 0.671 s and a delay of
// 0.05 s for a rank in the middle: 92.3 s. A wire for each direction would carry both at once.
TEST(OneWire, ARankInTheMiddleTakesItsMessagesOneAfterTheOther) {
  const auto one = LinkPolicy::kOneAReceiver;
  for (const char* schedule : {"gpipe", "1f1b"}) {
    EXPECT_GE(Period(Named(schedule, 4, 64), {}, {.busy_s = 0.671, .delay_s = 0.05}, {}, one),
              128 * (0.671 + 0.05) - 1e-6);
  }
  // In 1F1B both directions flow at the same time: full-duplex wires take less than one can.
  const PipelineProgram eight = Named("1f1b", 8, 64);
  EXPECT_GE(Period(eight, {}, {.busy_s = 0.671}, {}, one), 128 * 0.671 - 1e-6);
  EXPECT_LT(Period(eight, {}, {.busy_s = 0.671}), 128 * 0.671 - 1);
  // Two ranks: each is sent one direction alone.
  EXPECT_NEAR(Period(Named("gpipe", 2, 64), {}, {.busy_s = 0.671}, {}, one), 128 * 0.671, 1e-6);
}

// S = 4, F = 1, B = 2, a delay of 3 either way, so that the round trip is worth two micro-batches.
// Once full, the last stage never waits if those before it have two more in flight a boundary: a
// step of 32 takes 96, and what fills and drains it, 3 (1+3) before its first and 3 (2+3) behind its
// last; 1F1B waits for a round trip again and again.
TEST(Makespan, OfADepthWaitsForNoRoundTripThatItIsWorth) {
  const auto makespan = [](const char* name, int depth) {
    const PipelineProgram program = Named(name, 4, 32, depth);
    return *Makespan(program, PipelineCosts::Of(program, {1, 2}, {.delay_s = 3}));
  };
  EXPECT_DOUBLE_EQ(makespan("gpipe", 1), 96 + 12 + 15);
  EXPECT_DOUBLE_EQ(makespan("1f1b-deep", 2), 96 + 12 + 15);
  EXPECT_GT(makespan("1f1b-deep", 1), 1.1 * (96 + 12 + 15));
  EXPECT_GT(makespan("1f1b", 1), 1.8 * (96 + 12 + 15));
}

// V shape, by hand: rank 0 holds stages 0 and 3, rank 1 stages 1 and 2. F = 1, B = 2, wire busy 3,
// delay 10. 0F0 0-1, arrives 14; 1F0 14-15, 2F0 15-16, arrives 29; 3F0 29-30, 3B0 30-32, arrives
// 45; 2B0 45-47, 1B0 47-49, arrives 62; 0B0 62-64. A tied head's both ends are on one rank: nothing crosses.
TEST(Makespan, OfAVByHand) {
  const PipelineProgram program = *Assemble({{F(0), F(3), B(3), B(0)}, {F(1), F(2), B(2), B(1)}});
  PipelineCosts costs = PipelineCosts::Of(program, {1, 2}, {.busy_s = 3, .delay_s = 10});
  EXPECT_DOUBLE_EQ(*Makespan(program, costs), 64);
  costs.tied = {{.busy_s = 50, .delay_s = 50}, {.busy_s = 50, .delay_s = 50}};
  EXPECT_DOUBLE_EQ(*Makespan(program, costs), 64);
}

TEST(Makespan, OfAProgramThatWaitsForWhatNobodySendsSaysWhere) {
  const PipelineProgram program =
      *Assemble({{F(0), B(0), F(0, 1), B(0, 1)}, {F(1), F(1, 1), B(1), B(1, 1)}});
  EXPECT_EQ(Makespan(program, PipelineCosts::Of(program, {1, 2})).status().message(),
            "schedule: stuck before 0B0");
}

// F = 1, B = 2, wires of 3 and 10, update 5; the second group is twice as slow.
struct TwoGroups {
  PipelineProgram program = *Assemble({{F(0), B(0)}, {F(1), B(1)}});
  std::vector<PipelineCosts> costs;
  TwoGroups() {
    for (const double slow : {1.0, 2.0}) {
      costs.push_back(PipelineCosts::Of(program, {slow, 2 * slow}, {.busy_s = 3, .delay_s = 10}));
      for (PipelineCosts::Rank& rank : costs.back().ranks) rank.step_s = 5;
    }
  }
};

// Group 0: rank 1 makes its gradient at 1 + 13 + 3 = 17, rank 0 has it at 30 and ends at 32. Group 1:
// 2 + 13 + 6 = 21, 34, 38.
TEST(ScheduleClock, AnExchangeEndsWithTheSlowerGroupAndWithWhatIsOwed) {
  const TwoGroups two;
  ScheduleClock clock(two.program, two.costs);
  ASSERT_TRUE(clock.Actions().ok());
  EXPECT_EQ(clock.free_s(), (std::vector<double>{32, 17, 38, 21}));
  clock.Update();
  const Wire wire{.busy_s = 104, .delay_s = 20};
  clock.Send(0, 0, 2, wire);
  clock.Send(0, 2, 0, wire);
  EXPECT_EQ(clock.free_s()[0], 37) << "ranks go on while it is on its way";
  clock.Receive(0);
  // From group 1: 43 + 104 + 20. From group 0: 37 + 104 + 20 = 161. Its own has left by 147.
  EXPECT_EQ(clock.free_s(), (std::vector<double>{167, 22, 161, 26}));
  clock.Receive(0);  // nothing is under way any more
  EXPECT_EQ(clock.free_s()[0], 167);
  // Each tells the other: rank 1 of group 0 hears at 167 + 10; rank 0 heard long ago.
  clock.TellAll(0, {0, 10, 12, 0});
  EXPECT_EQ(clock.free_s(), (std::vector<double>{167, 177, 161, 26}));
}

TEST(ScheduleClock, AGroupThatIsBackBeginsAnewOnFreshConnectionsAndAHeldOneLater) {
  const TwoGroups two;
  ScheduleClock clock(two.program, two.costs);
  clock.Leave(1);
  ASSERT_TRUE(clock.Step().ok());
  EXPECT_EQ(clock.free_s(), (std::vector<double>{37, 22, 0, 0}));
  clock.Send(0, 2, 0, {.busy_s = 1000});
  clock.Return(1, 100);
  EXPECT_EQ(clock.Send(0, 2, 0, {.busy_s = 1}).arrived, 101) << "not behind what it sent before";
  clock.Hold(0, 1, 60);  // its activation, made at 38, goes 60 - 63 and is there at 73: 22 later
  ASSERT_TRUE(clock.Step().ok());
  EXPECT_EQ(clock.free_s(), (std::vector<double>{37 + 37 + 22, 81, 143, 126}));
  EXPECT_EQ(clock.Latest(0), 96);
}

// One micro-batch in two stages: 0F 0-1, there 14; 1F 14-15, 1B 15-17; back 30; 0B 30-32. A head's part
// leaves rank 1 at 17, behind the gradient on its wire at 20, and has left at 27, there at 37; the lookups' part
// leaves rank 0 at 32, has left at 39, there at 49. One wire a receiver: to rank 0 until 30, then until 47; to
// rank 1 from 32 until 49. Both update in 5 more.
TEST(ScheduleClock, ATiedHeadHoldsBothEndsByHand) {
  TwoGroups two;
  two.costs[0].tied = {{.busy_s = 7, .delay_s = 10}, {.busy_s = 7, .delay_s = 10}};
  const std::span group(two.costs.data(), 1);
  ScheduleClock duplex(two.program, group), one(two.program, group, LinkPolicy::kOneAReceiver);
  ASSERT_TRUE(duplex.Step().ok() && one.Step().ok());
  EXPECT_EQ(duplex.free_s(), (std::vector<double>{44, 54}));
  EXPECT_EQ(one.free_s(), (std::vector<double>{54, 54}));
}

// The first message is lost whole, at 20 ms. The second, made at 40, is there at 91 and tells of it at 141, so
// the first one's repetition is there at 192 and rank 1 does both forwards. Had nothing followed, a timeout, 0.3 s,
// would have repeated it.
TEST(ScheduleClock, AMessageThatFollowsALostOneBringsItSooner) {
  FrameLoss loss{.prob = 0.2};
  for (bool lost[3] = {}; !lost[0] || lost[1] || lost[2]; ++loss.key) {
    FrameFates fates;
    for (bool& frame : lost) frame = fates.Lost({.prob = 0.2, .key = loss.key + 1});
  }
  const PipelineProgram program = Named("gpipe", 2, 2);
  PipelineCosts costs = PipelineCosts::Of(program, {.forward_s = 0.02});
  costs.activations[0] = {.busy_s = 1e-3, .delay_s = 0.05, .segments = 1, .loss = loss};
  ScheduleClock clock(program, std::span(&costs, 1));
  ASSERT_TRUE(clock.Actions().ok());
  EXPECT_NEAR(clock.free_s()[1], 0.192 + 2 * 0.02, 1e-9);
}

// When each rank ends `steps` steps, by its equations alone: every time is the most of what it waits for and
// what it takes; they are evaluated until none changes.
std::vector<double> Solved(const PipelineProgram& program, const PipelineCosts& costs, int steps) {
  const int stages = program.num_stages();
  const size_t ranks = program.ranks.size();
  // By kind, receiving stage and micro-batch.
  std::map<std::tuple<int, MessageKind, int, int>, double> arrived;
  std::vector<double> ends;
  for (bool changed = true; changed;) {
    changed = false;
    ends.assign(ranks, 0);
    std::vector<double> encoded(ranks, 0);
    std::map<std::pair<int, int>, double> wire_free;
    for (int step = 0; step < steps; ++step) {
      for (size_t r = 0; r < ranks; ++r) {
        for (const Action& action : program.ranks[r]) {
          if (const auto in = InputOf(action, stages)) {
            const bool here = program.rank_of_stage[in->from_stage] == static_cast<int>(r);
            ends[r] = std::max(ends[r], arrived[{step, in->kind, in->to_stage, in->microbatch}] +
                                            (here ? 0 : costs.ranks[r].decode_s));
          }
          ends[r] += costs.stages[action.stage].Of(action.op);
          const auto out = OutputOf(action, stages);
          if (!out) continue;
          double there = ends[r];
          if (const int to = program.rank_of_stage[out->to_stage]; to != static_cast<int>(r)) {
            encoded[r] = std::max(encoded[r], ends[r]) + costs.ranks[r].encode_s;
            const bool forward = out->kind == MessageKind::kActivation;
            const Wire& wire = (forward ? costs.activations : costs.gradients)[out->boundary()];
            double& free = wire_free[{r, to}];
            free = std::max(free, encoded[r]) + wire.busy_s;
            there = free + wire.delay_s;
          }
          double& known = arrived[{step, out->kind, out->to_stage, out->microbatch}];
          changed |= known != there;
          known = there;
        }
        ends[r] += costs.ranks[r].step_s;
      }
    }
  }
  return ends;
}

TEST(ScheduleClock, DrawnProgramsEndAsTheirEquationsSay) {
  std::mt19937 draw(7);
  const auto seconds = [&draw](double most) {
    return std::uniform_real_distribution<double>(0, most)(draw);
  };
  int programs = 0;
  for (const std::string& name : FlushedScheduleNames()) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int m : {ranks, 2 * ranks, 3 * ranks}) {
        const PipelineProgram program = Named(name.c_str(), ranks, m);
        PipelineCosts costs = PipelineCosts::Of(program, {});
        for (Stage& stage : costs.stages) stage = {seconds(1), seconds(2), seconds(1), seconds(1)};
        for (PipelineCosts::Rank& rank : costs.ranks) rank = {seconds(1), seconds(1), seconds(1)};
        for (auto* wires : {&costs.activations, &costs.gradients}) {
          for (Wire& wire : *wires) wire = {.busy_s = seconds(1), .delay_s = seconds(3)};
        }
        ScheduleClock clock(program, std::span(&costs, 1));
        ASSERT_TRUE(clock.Step().ok() && clock.Step().ok()) << name;
        const std::vector<double> solved = Solved(program, costs, 2);
        for (int r = 0; r < ranks; ++r) {
          EXPECT_DOUBLE_EQ(clock.free_s()[r], solved[r]) << name << ", P " << ranks << ", M " << m;
        }
        ++programs;
      }
    }
  }
  EXPECT_GE(programs, 80);
}

// There and back, and the update behind it: no schedule of one micro-batch has anything to overlap.
TEST(LeastStep, IsTheStepWhereNothingOverlaps) {
  const TwoGroups two;
  EXPECT_DOUBLE_EQ(LeastStepPeriod(two.program, two.costs[0]), 2 * (1 + 2) + 2 * (3 + 10) + 5);
  EXPECT_DOUBLE_EQ(*StepPeriod(two.program, two.costs[0]), 37);
}

// Whatever the schedule and whatever is slow: compute, one stage, the wires or their delay.
TEST(LeastStep, NoScheduleIsBelowIt) {
  for (const std::string& name : ScheduleNames()) {
    const PipelineProgram program = Named(name.c_str(), 3, 6);
    for (const double delay : {0.0, 5.0, 50.0}) {
      for (const double busy : {0.1, 4.0}) {
        PipelineCosts costs =
            PipelineCosts::Of(program, {1, 2, 1, 1}, {.busy_s = busy, .delay_s = delay});
        for (Wire& wire : costs.gradients) wire.busy_s /= 2;
        for (PipelineCosts::Rank& rank : costs.ranks) rank.step_s = 0.5;
        costs.stages[1].forward_s = 3;
        const double least = LeastStepPeriod(program, costs);
        EXPECT_LE(least, *StepPeriod(program, costs) * (1 + 1e-12)) << name << delay << busy;
        EXPECT_GE(least, 6 * (1 + 2)) << "a rank's own work";
      }
    }
  }
}

// Never flushed, it is one 1F1B of all steps' micro-batches, until their end is in sight.
TEST(WithoutFlush, StepsEndAsThoseOfOneLong1F1B) {
  std::mt19937 draw(11);
  const auto seconds = [&draw](double most) {
    return std::uniform_real_distribution<double>(0, most)(draw);
  };
  constexpr int kSteps = 12;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 4}) {
      const PipelineProgram program = Named("1f1b-async", ranks, m);
      const PipelineProgram one = Named("1f1b", ranks, m * kSteps);
      PipelineCosts costs = PipelineCosts::Of(program, {});
      for (Stage& stage : costs.stages) stage = {seconds(1), seconds(2)};
      for (PipelineCosts::Rank& rank : costs.ranks) rank = {seconds(1), seconds(1)};
      for (auto* wires : {&costs.activations, &costs.gradients}) {
        for (Wire& wire : *wires) wire = {.busy_s = seconds(1), .delay_s = seconds(3)};
      }
      ScheduleClock clock(program, std::span(&costs, 1)), whole(one, std::span(&costs, 1));
      ASSERT_TRUE(whole.Actions().ok());
      for (int step = 1; step * m < m * kSteps - ranks; ++step) {
        ASSERT_TRUE(clock.Step().ok());
        for (int r = 0; r < ranks; ++r) {
          const auto& done = whole.done()[r];
          const auto last = std::find_if(done.begin(), done.end(), [&](const auto& d) {
            return d.action == B(r, step * m - 1);
          });
          EXPECT_DOUBLE_EQ(clock.free_s()[r], last->end_s)
              << "P " << ranks << ", M " << m << ", step " << step << ", rank " << r;
        }
      }
    }
  }
}

// By hand: a stage is never idle where links take no time. Where they are slow, S micro-batches make one
// way there and back: 4 (1 + 2) of compute and 6 crossings of 1 and 50 seconds.
TEST(WithoutFlush, HasNoBubbleButWaitsForSlowLinks) {
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 8}) {
      const PipelineProgram program = Named("1f1b-async", ranks, m);
      EXPECT_DOUBLE_EQ(Period(program, {1, 2}, {}, {.step_s = 0.5}), m * 3 + 0.5);
      EXPECT_NEAR(BubbleFraction(program, 2), 0, 1e-12);
    }
  }
  for (const int m : {1, 2, 3}) {
    EXPECT_DOUBLE_EQ(Period(Named("1f1b-async", 4, m), {1, 2}, {.busy_s = 1, .delay_s = 50}),
                     m * (4 * 3 + 6 * 51) / 4.0);
  }
}

}  // namespace
}  // namespace longhaul
