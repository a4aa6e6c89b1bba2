// When workers are killed that do not end by themselves, to the nanosecond: no process is started.
#include "experiments/run/endings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kNanosecond = absl::Nanoseconds(1);

TEST(Ending, TheOthersGetThePeersDeadlineAndFiveSeconds) {
  RunSpec spec{};
  for (const double deadline_s : {0.5, 30.0}) {
    spec.net.peer_deadline_s = deadline_s;
    EXPECT_EQ(GraceToEnd(spec), absl::Seconds(deadline_s + 5));
  }
}

TEST(Ending, AFailureIsFollowedByTheGraceAndAStandstillByNothing) {
  const absl::Duration now = absl::Seconds(100), grace = absl::Seconds(35);
  EXPECT_EQ(KillDeadline(absl::UnavailableError("rank 1: killed"), now, grace), absl::Seconds(135));
  EXPECT_EQ(KillDeadline(absl::DeadlineExceededError("the emulator stood still"), now, grace), now);
}

// Group 1 is lost at 10 s; half a second later what is left of it is ended, and nobody else.
TEST(Ending, WhatIsLeftOfALostGroupHasHalfASecond) {
  GroupLives groups(3, {});
  groups.Lose(1, absl::Seconds(10));
  const std::vector<RunningWorker> workers = {
      {100, 0, {}}, {102, 1, {}}, {103, 1, {}}, {104, 2, {}}};
  const auto ended = [&](absl::Duration now) {
    return WorkersToTerminate(workers, groups, now, absl::Seconds(30));
  };
  EXPECT_THAT(ended(absl::Seconds(10.5)), IsEmpty());
  EXPECT_THAT(ended(absl::Seconds(10.5) + kNanosecond), ElementsAre(102, 103));
  EXPECT_THAT(ended(absl::Hours(10)), ElementsAre(102, 103));
}

TEST(Ending, WhoeverIsStoppedBeyondTheDeadlineIsEnded) {
  const absl::Duration deadline = absl::Seconds(30);
  const std::vector<RunningWorker> workers = {
      {100, 0, {}}, {101, 0, deadline}, {102, 1, deadline + kNanosecond}};
  EXPECT_THAT(WorkersToTerminate(workers, GroupLives(2, {}), absl::Seconds(50), deadline),
              ElementsAre(102));
}

// Two minutes to the nanosecond are no long life; five in a row that end sooner are too many.
TEST(Ending, ALifeIsLongAfterTwoMinutesAndTheSixthShortOneIsTheLast) {
  const auto lives_until_given_up = [](absl::Duration each) {
    GroupLives lives(2, {});
    absl::Duration now;
    for (int n = 1; n <= 20; ++n) {
      now += each;
      lives.Lose(1, now);
      if (lives.WhatNext(1, now) == GroupLives::Next::kGiveUp) return n;
    }
    return 0;
  };
  EXPECT_EQ(lives_until_given_up(absl::Seconds(1)), 6);
  EXPECT_EQ(lives_until_given_up(absl::Minutes(2)), 6);
  EXPECT_EQ(lives_until_given_up(absl::Minutes(2) + kNanosecond), 0);
}

}  // namespace
}  // namespace longhaul
