// Which lost group is started anew, which is given up, and whether anybody is left.
#include "experiments/elastic/group_lives.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

using Next = GroupLives::Next;
using Loss = GroupLives::Loss;

TEST(GroupLives, AGroupIsLostOnceALifeAndComesBackInTheNext) {
  GroupLives lives(2, {});
  EXPECT_EQ(lives.Lose(1, absl::Seconds(1)), Loss::kState);
  EXPECT_EQ(lives.Lose(1, absl::Seconds(2)), Loss::kNone);
  EXPECT_FALSE(lives.IsLostFor(1, absl::Seconds(1), absl::Seconds(2)));
  EXPECT_TRUE(lives.IsLostFor(1, absl::Seconds(1), absl::Seconds(3)));
  EXPECT_TRUE(lives.AnyHolds());
  EXPECT_EQ(lives.WhatNext(1, absl::Seconds(3)), Next::kStart);
  EXPECT_EQ(lives.Life(1), 1);
  EXPECT_FALSE(lives.IsLost(1));
  EXPECT_EQ(lives.Lose(1, absl::Seconds(4)), Loss::kLife) << "it had not taken the state over";
}

TEST(GroupLives, NobodyHoldsTheStateUntilWhoComesHasTakenIt) {
  GroupLives lives(2, {1});
  EXPECT_FALSE(lives.IsThere(1));
  lives.Leave(0, absl::Seconds(1));
  EXPECT_FALSE(lives.AnyHolds());
  lives.Want(1);
  EXPECT_EQ(lives.WhatNext(1, absl::Seconds(1)), Next::kStart);
  EXPECT_FALSE(lives.AnyHolds());
  lives.Holds(1);
  EXPECT_TRUE(lives.AnyHolds());
}

TEST(GroupLives, WhoLeftStaysAwayUntilItIsWanted) {
  GroupLives lives(2, {});
  lives.Leave(1, absl::Seconds(1));
  EXPECT_EQ(lives.WhatNext(1, absl::Seconds(2)), Next::kStay);
  EXPECT_FALSE(lives.IsThere(1));
  lives.Want(1);
  EXPECT_EQ(lives.WhatNext(1, absl::Seconds(3)), Next::kStart);
  EXPECT_TRUE(lives.IsThere(1));
}

// Lives of one second: how many, until it is given up; at most `most`.
int LivesUntilGivenUp(int most, auto between) {
  GroupLives lives(2, {});
  absl::Duration now = absl::Seconds(1);
  for (int n = 1; n <= most; ++n) {
    between(n, lives, now);
    lives.Lose(1, now);
    if (lives.WhatNext(1, now) == Next::kGiveUp) return n;
    now += absl::Seconds(1);
  }
  return 0;
}

TEST(GroupLives, OneThatOnlyDiesIsGivenUp) {
  EXPECT_EQ(LivesUntilGivenUp(20, [](int, GroupLives&, absl::Duration&) {}),
            GroupLives::kMostFailedStarts + 1);
}

TEST(GroupLives, AnOuterStepOrALongLifeIsFruit) {
  const auto meets = [](int n, GroupLives& lives, absl::Duration&) {
    if (n == 4) lives.Met(1);
  };
  EXPECT_EQ(LivesUntilGivenUp(20, meets), 4 + GroupLives::kMostFailedStarts + 1);
  const auto lasts = [](int n, GroupLives&, absl::Duration& now) {
    if (n == 4) now += GroupLives::kLongLife;
  };
  EXPECT_EQ(LivesUntilGivenUp(20, lasts), 4 + GroupLives::kMostFailedStarts + 1);
}

}  // namespace
}  // namespace longhaul
