// What each fault cost, from what workers and the lab tell in whatever order it comes.
#include "experiments/run/ledgers.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/fault_script.h"

namespace longhaul {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// Rounds of 4 steps of 2 stages, 100 tokens a step.
class Ledger : public testing::Test {
 protected:
  void Step(int64_t group, int64_t step) {
    StepRow row{};
    row.group_index = group;
    row.stage = 1;
    row.step = step;
    row.tokens = 100;
    row.outer_synced = step % 4 == 0;
    ledger_.SeeStep(row);
  }
  void Steps(int64_t group, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) Step(group, step);
  }
  void Fault(const std::string& what, int64_t group, int64_t step, const std::string& said = "") {
    FaultRow row{};
    row.what = what;
    row.group_index = group;
    row.step = step;
    row.said = said;
    ledger_.SeeFault(row);
  }
  // The last that is told of fault `number`.
  FaultRow Row(int64_t number) {
    for (const FaultRow& row : ledger_.TakeChanged()) rows_[row.number] = row;
    return rows_[number];
  }

  absl::Duration now_;
  FaultLedger ledger_{OuterPlan({.inner_steps = 4}, /*steps=*/100), 2, [this] { return now_; }};
  std::map<int64_t, FaultRow> rows_;
};

TEST_F(Ledger, ALossCostsTheStepsSinceTheOuterStepAndTheTimeUntilTheGroupTrainsAgain) {
  Steps(1, 1, 6);
  Fault("kill", 1, 7);
  EXPECT_EQ(Row(0).lost_tokens, 200);
  now_ = absl::Seconds(3);
  Step(1, 9);
  EXPECT_EQ(Row(0).recovered_step, 9);
  EXPECT_EQ(Row(0).recovery_s, 3);
  EXPECT_EQ(ledger_.groups_came_or_went(), 1);
  EXPECT_THAT(ledger_.TakeChanged(), IsEmpty());
}

TEST_F(Ledger, StepsThatAreToldAfterTheLossArePartOfItsPriceAndOfNoOther) {
  Steps(1, 1, 4);
  Fault("kill", 1, 7);  // of stage 0, before stage 1 had told of steps 5 and 6
  Steps(1, 5, 7);       // 7: stage 1 finished what stage 0 died in
  EXPECT_EQ(Row(0).lost_tokens, 200);
  Steps(1, 9, 9);
  Fault("kill", 1, 10);
  EXPECT_EQ(Row(1).lost_tokens, 100);
}

TEST_F(Ledger, WhoLeavesAfterARoundHasLostNothingThoughItsOuterStepIsToldLater) {
  Steps(2, 1, 3);
  Fault("leave", 2, 5, kByPlan);
  Step(2, 4);
  EXPECT_EQ(Row(0).lost_tokens, 0);
  EXPECT_EQ(ledger_.groups_came_or_went(), 1);
}

TEST_F(Ledger, WhatTheLabSeesOfALossIsTheFaultThatTheWorkerTold) {
  Steps(0, 1, 2);
  Fault("kill", 0, 3);
  Fault("lost", 0, 0, "killed by signal 9");
  EXPECT_EQ(Row(0).said, "killed by signal 9");
  Steps(1, 1, 2);
  Fault("lost", 1, 0, "killed by signal 11");  // of which nobody told
  EXPECT_EQ(Row(1).step, 3);
  EXPECT_EQ(Row(1).lost_tokens, 200);
  EXPECT_EQ(ledger_.groups_came_or_went(), 2);
  EXPECT_THAT(ledger_.groups(), ElementsAre(0, 1));
}

TEST_F(Ledger, WhatCostsTimeAloneIsNoLossAndEarlierFaultsKeepTheirNumbers) {
  FaultRow earlier{};
  earlier.what = "kill";
  earlier.group_index = 0;
  ledger_.SeeEarlier(std::span(&earlier, 1));
  Fault("stop", 0, 2, "for 3 s");
  Fault("slow", 0, 2);
  EXPECT_EQ(ledger_.groups_came_or_went(), 1) << "the earlier one";
  EXPECT_THAT(ledger_.groups(), IsEmpty()) << "what was counted then was judged then";
  const std::vector<FaultRow> rows = ledger_.TakeChanged();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].number, 1);
}

TEST_F(Ledger, WhatThePlanSaysIsOneFaultHoweverManyLivesComeToIt) {
  FaultRow earlier{.number = 4, .step = 16};
  earlier.what = "leave";
  earlier.group_index = 2;
  earlier.said = kByPlan;
  ledger_.SeeEarlier(std::span(&earlier, 1));
  ledger_.SeeFault({.number = 0, .step = 16, .what = "leave", .group_index = 2, .said = kByPlan});
  ledger_.SeeFault({.number = 0, .step = 24, .what = "leave", .group_index = 2, .said = kByPlan});
  EXPECT_EQ(ledger_.groups_came_or_went(), 2);
  const std::vector<FaultRow> rows = ledger_.TakeChanged();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].number, 4) << "takes the place of the earlier row";
  EXPECT_EQ(rows[1].number, 6);
}

}  // namespace
}  // namespace longhaul
