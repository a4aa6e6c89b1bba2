// Who meets at an outer step, by what the store says.
#include "experiments/train/round_store.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "plugin/core/clock.h"

namespace longhaul {
namespace {

// Two stages, three groups, round 3 at first.
class Rounds : public testing::Test {
 protected:
  void Say(const std::string& key, int group, int life = -1) {
    for (int stage = 0; stage < 2; ++stage) {
      std::string name = key + "/" + std::to_string(group);
      if (life >= 0) name += "/" + std::to_string(life);
      store_.Set(name + "/" + std::to_string(stage), "1");
    }
  }
  void Done(int group) { Say(question_.prefix() + "done", group); }
  void Down(int group, int life) {
    store_.Set("down/" + std::to_string(group) + "/" + std::to_string(life), "1");
  }
  // Without waiting for anybody who is late.
  std::string Meets(absl::Duration patience = absl::ZeroDuration()) {
    question_.deadline = MonotonicClock().Now() + patience;
    return DecisionText(WhoMeets(store_, question_));
  }

  RoundStore store_{c10::make_intrusive<c10d::HashStore>(), 2, 3};
  Question question_{.round = "r3/",
                     .attempt = 1,
                     .expected = {{0, 0}, {1, 0}, {2, 1}},
                     .known = {{0, 0}, {1, 0}, {2, 1}},
                     .last = false,
                     .died_waiting = false,
                     .deadline = absl::ZeroDuration()};
};

TEST_F(Rounds, WhoIsDoneMeetsAndTheFirstAnswerStands) {
  for (const int group : {0, 1, 2}) Done(group);
  EXPECT_EQ(Meets(absl::Minutes(1)), "0:0 1:0 2:1|");
  Down(1, 0);
  EXPECT_EQ(Meets(), "0:0 1:0 2:1|");
}

TEST_F(Rounds, WhoIsDownJoinsInItsNextLifeAndWhoIsLateIsLeftOut) {
  Done(0);
  Down(1, 0);
  Say("join", 1, 1);
  EXPECT_EQ(Meets(), "0:0|1:1");
}

TEST_F(Rounds, AJoinerThatNobodyWelcomedJoinsAgain) {
  Done(0);
  Done(1);
  Say("join", 2, 1);
  EXPECT_EQ(Meets(absl::Minutes(1)), "0:0 1:0|2:1") << "nobody waits for what it cannot finish";
}

TEST_F(Rounds, AJoinerThatWasWelcomedIsLateAsEverybodyElse) {
  Done(0);
  Done(1);
  Say("join", 2, 1);
  Say("welcome", 2, 1);
  EXPECT_EQ(Meets(), "0:0 1:0|");
}

TEST_F(Rounds, NobodyJoinsAfterTheLastRound) {
  question_.last = true;
  Done(0);
  Done(1);
  Say("join", 2, 1);
  EXPECT_EQ(Meets(absl::Minutes(1)), "0:0 1:0|");
}

TEST_F(Rounds, OneThatWasStartedAnewHoldsNothingUntilItHasTakenTheStateOnAllStages) {
  EXPECT_TRUE(store_.AnyHolds());
  for (const int group : {0, 1, 2}) Down(group, 0);
  Down(1, 1);
  EXPECT_FALSE(store_.AnyHolds());
  store_.Set("taken/1/2/0", "1");
  EXPECT_FALSE(store_.AnyHolds());
  store_.Set("taken/1/2/1", "1");
  EXPECT_TRUE(store_.AnyHolds());
}

}  // namespace
}  // namespace longhaul
