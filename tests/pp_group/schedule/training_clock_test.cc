// The recursion over groups, by hand.
#include "pp_group/schedule/training_clock.h"

#include <gtest/gtest.h>

#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

Action F(int stage) { return {stage, Op::kForward, 0}; }
Action B(int stage) { return {stage, Op::kBackward, 0}; }

// F = 1, B = 2, wires of 3 and 10, optimizer 5; the second group is twice as slow.
struct TwoGroups {
  PipelineProgram program = *Assemble({{F(0), B(0)}, {F(1), B(1)}});
  std::vector<PipelineCosts> costs;
  TwoGroups() {
    for (const double slow : {1.0, 2.0}) {
      costs.push_back({.stages = std::vector<PipelineCosts::Stage>(
                           2, {.forward_s = slow, .backward_s = 2 * slow}),
                       .ranks = std::vector<PipelineCosts::Rank>(2, {.step_s = 5}),
                       .activations = {{.busy_s = 3, .delay_s = 10}},
                       .gradients = {{.busy_s = 3, .delay_s = 10}}});
    }
  }
};

// Group 0: rank 1 makes its gradient at 1 + 13 + 3 = 17, rank 0 has it at 30 and ends at 32. Group 1:
// 2 + 13 + 6 = 21, 34, 38.
TEST(TrainingClock, AnExchangeEndsWithTheSlowerGroupAndWithWhatIsOwed) {
  const TwoGroups two;
  TrainingClock clock(two.program, two.costs);
  ASSERT_TRUE(clock.Actions().ok());
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 0), 32);
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 1), 17);
  EXPECT_DOUBLE_EQ(clock.Seconds(1, 0), 38);
  EXPECT_DOUBLE_EQ(clock.Seconds(1, 1), 21);
  clock.Update();  // 37, 22; 43, 26
  for (const int from : {0, 1}) {
    clock.Send(0, {.stage = 0,
                   .from_group = from,
                   .to_group = 1 - from,
                   .wire = {.busy_s = 104, .delay_s = 20}});
  }
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 0), 37) << "ranks go on while it is on its way";
  clock.Receive(0);
  // From group 1: 43 + 104 + 20. From group 0: 37 + 104 + 20 = 161. Its own has left by 147.
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 0), 167);
  EXPECT_DOUBLE_EQ(clock.Seconds(1, 0), 161);
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 1), 22);
  clock.Receive(0);  // nothing is under way any more
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 0), 167);
  // Each tells the other: rank 1 of group 0 hears at 167 + 10; rank 0 heard long ago.
  clock.TellAll(0, {0, 10, 12, 0});
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 0), 167);
  EXPECT_DOUBLE_EQ(clock.Seconds(0, 1), 177);
  EXPECT_DOUBLE_EQ(clock.Seconds(1, 1), 26);
}

// There and back, and the optimizer behind it: no schedule of one micro-batch has anything to overlap.
TEST(LeastStep, IsTheStepWhereNothingOverlaps) {
  const TwoGroups two;
  EXPECT_DOUBLE_EQ(LeastStepPeriod(two.program, two.costs[0]), 2 * (1 + 2) + 2 * (3 + 10) + 5);
  EXPECT_DOUBLE_EQ(*StepPeriod(two.program, two.costs[0]), 37);
}

// Whatever the schedule and whatever is slow: compute, one stage, the wires or their delay.
TEST(LeastStep, NoScheduleIsBelowIt) {
  for (const std::string& name : ScheduleNames()) {
    const Schedule schedule = *FindSchedule(name);
    const PipelineProgram program =
        ProgramOf(schedule, {.ranks = 3, .chunks = schedule.least_chunks, .microbatches = 6});
    const size_t stages = program.rank_of_stage.size();
    for (const double delay : {0.0, 5.0, 50.0}) {
      for (const double busy : {0.1, 4.0}) {
        PipelineCosts costs{
            .stages = std::vector<PipelineCosts::Stage>(stages, {1, 2, 1, 1}),
            .ranks = std::vector<PipelineCosts::Rank>(3, {.step_s = 0.5}),
            .activations = std::vector<PipelineCosts::Wire>(stages - 1, {busy, delay}),
            .gradients = std::vector<PipelineCosts::Wire>(stages - 1, {busy / 2, delay})};
        costs.stages[1].forward_s = 3;
        const double least = LeastStepPeriod(program, costs);
        EXPECT_LE(least, *StepPeriod(program, costs) * (1 + 1e-12)) << name << delay << busy;
        EXPECT_GE(least, 6 * (1 + 2)) << "a rank's own work";
      }
    }
  }
}

// The first message is lost whole, at 20 ms. The second, made at 40, is there at 91 and tells of it at 141, so
// the first one's repetition is there at 192 and rank 1 does both forwards. Had nothing followed, a timeout, 0.3 s,
// would have repeated it.
TEST(TrainingClock, AMessageThatFollowsALostOneBringsItSooner) {
  FrameLoss loss{.prob = 0.2};
  for (bool lost[3] = {}; !lost[0] || lost[1] || lost[2]; ++loss.key) {
    FrameFates fates;
    for (bool& frame : lost) frame = fates.Lost({.prob = 0.2, .key = loss.key + 1});
  }
  const auto both = [](int stage) {
    return Program{{stage, Op::kForward, 0},
                   {stage, Op::kForward, 1},
                   {stage, Op::kBackward, 0},
                   {stage, Op::kBackward, 1}};
  };
  const PipelineProgram program = *Assemble({both(0), both(1)});
  std::vector<PipelineCosts> costs{
      {.stages = std::vector<PipelineCosts::Stage>(2, {.forward_s = 0.02}),
       .ranks = std::vector<PipelineCosts::Rank>(2),
       .activations = {{.busy_s = 1e-3, .delay_s = 0.05, .segments = 1, .loss = loss}},
       .gradients = {{}}}};
  TrainingClock clock(program, costs);
  ASSERT_TRUE(clock.Actions().ok());
  EXPECT_NEAR(clock.Seconds(0, 1), 0.192 + 2 * 0.02, 1e-9);
}

}  // namespace
}  // namespace longhaul
