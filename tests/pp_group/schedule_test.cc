#include "pp_group/schedule.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/schedule_check.h"

namespace longhaul {
namespace {

TEST(OneForwardOneBackward, IsThisPicture) {
  EXPECT_EQ(ToString(OneForwardOneBackward(/*stage=*/0, 2, 3)), "0F0 0F1 0B0 0F2 0B1 0B2");
  EXPECT_EQ(ToString(OneForwardOneBackward(/*stage=*/1, 2, 3)), "1F0 1B0 1F1 1B1 1F2 1B2");
  EXPECT_EQ(ToString(OneForwardOneBackward(0, 4, 2)), "0F0 0F1 0B0 0B1");
}

TEST(GPipe, IsThisPicture) {
  EXPECT_EQ(ToString(GPipe(/*stage=*/1, 2, 3)), "1F0 1F1 1F2 1B0 1B1 1B2");
}

class EverySchedule : public testing::TestWithParam<std::string> {};

TEST_P(EverySchedule, RunsToItsEndWithinItsMemoryAndItsBubble) {
  const Schedule schedule = *FindSchedule(GetParam());
  for (int stages : {1, 2, 3, 4, 8}) {
    for (int microbatches : {1, 2, 3, 4, 8, 13}) {
      const std::vector<Program> programs = Programs(schedule, stages, microbatches);
      EXPECT_TRUE(CheckSchedule(programs).ok()) << CheckSchedule(programs);
      for (int s = 0; s < stages; ++s) {
        EXPECT_EQ(PeakActivations(programs[s]), schedule.peak_activations(s, stages, microbatches));
      }
      EXPECT_DOUBLE_EQ(BubbleFraction(programs),
                       static_cast<double>(stages - 1) / (microbatches + stages - 1));
    }
  }
}

TEST_P(EverySchedule, GlobalOrderHoldsEachProgramInItsOrder) {
  const std::vector<Program> programs = Programs(*FindSchedule(GetParam()), 4, 6);
  const Program order = *GlobalOrder(programs);
  EXPECT_EQ(order.size(), 4u * 12u);
  std::vector<Program> seen(4);
  for (const Action& action : order) seen[action.stage].push_back(action);
  EXPECT_EQ(seen, programs);
}

INSTANTIATE_TEST_SUITE_P(Table, EverySchedule, testing::ValuesIn(ScheduleNames()), [](auto& info) {
  return info.param == "1f1b" ? std::string("OneForwardOneBackward") : info.param;
});

TEST(OneForwardOneBackward, KeepsAtMostAsManyActivationsAsStagesFollow) {
  for (int s = 0; s < 8; ++s) EXPECT_EQ(PeakActivations(OneForwardOneBackward(s, 8, 32)), 8 - s);
}

TEST(FindSchedule, UnknownNameListsTheKnownOnes) {
  const absl::Status status = FindSchedule("1f2b").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("gpipe, 1f1b"));
}

std::string Refusal(const std::vector<Program>& programs) {
  const absl::Status status = CheckSchedule(programs);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(CheckSchedule, RefusesBrokenPrograms) {
  using testing::HasSubstr;
  const Action f00{0, Op::kForward, 0}, b00{0, Op::kBackward, 0}, f10{1, Op::kForward, 0},
      b10{1, Op::kBackward, 0}, f01{0, Op::kForward, 1}, b01{0, Op::kBackward, 1},
      f11{1, Op::kForward, 1}, b11{1, Op::kBackward, 1};
  EXPECT_TRUE(CheckSchedule({{f00, b00}, {f10, b10}}).ok());
  EXPECT_THAT(Refusal({{f00, b00}, {f10}}), HasSubstr("no backward of micro-batch 0"));
  EXPECT_THAT(Refusal({{f00, b00}, {b10, f10}}), HasSubstr("before its forward"));
  EXPECT_THAT(Refusal({{f00, f00, b00}, {f10, b10}}), HasSubstr("runs twice"));
  EXPECT_THAT(Refusal({{f00, b00}, {f00, b00}}), HasSubstr("of another stage"));
  EXPECT_THAT(Refusal({{f00, b00}, {f10, b10, f11, b11}}), HasSubstr("no such micro-batch"));
  EXPECT_THAT(Refusal({{f00, f01, b00, b01}, {f11, f10, b10, b11}}),
              HasSubstr("run their forwards in different orders"));
  // Stage 1 wants the second forward before it gives the first gradient, stage 0 the other way.
  EXPECT_THAT(Refusal({{f00, b00, f01, b01}, {f10, f11, b10, b11}}),
              HasSubstr("deadlock, stages wait at 0B0 1F1"));
}

}  // namespace
}  // namespace longhaul
