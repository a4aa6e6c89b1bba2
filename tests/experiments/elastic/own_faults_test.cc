// Whom a fault of the script strikes, at which checkpoint, and when the lab mends what it did.
#include "experiments/elastic/own_faults.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

Fault Of(FaultKind what, int64_t at_step, int64_t group = 1, int64_t stage = -1) {
  Fault fault;
  fault.what = what;
  fault.at_step = at_step;
  fault.where = {.kind = stage < 0 ? FaultPlace::Kind::kGroup : FaultPlace::Kind::kWorker,
                 .group = group,
                 .stage = stage};
  return fault;
}

TEST(OwnFaults, StrikeTheNamedWorkerOrEveryOneOfTheGroup) {
  const Fault whole = Of(FaultKind::kKill, 5), one = Of(FaultKind::kKill, 5, 1, 2);
  for (int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_TRUE(StrikesWorker(whole, 1, stage));
    EXPECT_FALSE(StrikesWorker(whole, 0, stage));
    EXPECT_EQ(StrikesWorker(one, 1, stage), stage == 2);
    EXPECT_FALSE(StrikesWorker(one, 2, stage));
    EXPECT_EQ(WorkerTells(whole, stage), stage == 0) << "one of the group tells";
  }
  EXPECT_TRUE(WorkerTells(one, 2));
  EXPECT_FALSE(WorkerTells(one, 1));
}

// A checkpoint every 4 steps: a disk that is full from step 6 on is met by that of step 8 alone.
TEST(OwnFaults, ADiskIsFullForTheNextCheckpointAlone) {
  const RoundBounds bounds{.steps = 40, .inner_steps = 4, .groups = 2, .checkpoint_every = 4};
  const Fault full = Of(FaultKind::kDiskFull, 6);
  for (const int64_t step : {4, 8, 12}) {
    EXPECT_EQ(StrikesAtCheckpoint(full, FaultKind::kDiskFull, step, bounds), step == 8) << step;
    EXPECT_FALSE(StrikesAtCheckpoint(full, FaultKind::kKill, step, bounds)) << step;
  }
  const Fault at_its_step = Of(FaultKind::kDiskFull, 8);
  EXPECT_TRUE(StrikesAtCheckpoint(at_its_step, FaultKind::kDiskFull, 8, bounds));
  EXPECT_FALSE(StrikesAtCheckpoint(at_its_step, FaultKind::kDiskFull, 12, bounds));
}

TEST(OwnFaults, AKillAtACheckpointIsAtTheFirstFromItsStepOn) {
  const RoundBounds bounds{.steps = 40, .inner_steps = 4, .groups = 2, .checkpoint_every = 8};
  Fault kill = Of(FaultKind::kKill, 9);
  EXPECT_FALSE(StrikesAtCheckpoint(kill, FaultKind::kKill, 16, bounds)) << "it is none there";
  kill.during = FaultMoment::kCheckpoint;
  for (const int64_t step : {8, 16, 24}) {
    EXPECT_EQ(StrikesAtCheckpoint(kill, FaultKind::kKill, step, bounds), step == 16) << step;
  }
  kill.at_step = 33;  // the next would be after the last step
  EXPECT_FALSE(StrikesAtCheckpoint(kill, FaultKind::kKill, 40, bounds));
}

TEST(OwnFaults, TheLabMendsBeforeTheStepBehindTheLast) {
  Fault slow_link = Of(FaultKind::kLinkRate, 10);
  EXPECT_EQ(MendStep(slow_link), 0);
  slow_link.for_steps = 3;
  EXPECT_EQ(MendStep(slow_link), 13);
}

}  // namespace
}  // namespace longhaul
