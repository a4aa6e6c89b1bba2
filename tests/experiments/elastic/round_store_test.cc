// Who meets at an outer step, by what the store says.
#include "experiments/elastic/round_store.h"

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

// Who looks later sees more, and must not believe its own eyes: two ranks would meet different groups.
TEST_F(Rounds, WhoLooksLaterTakesTheFirstAnswerToo) {
  Done(0);
  Done(1);
  EXPECT_EQ(Meets(), "0:0 1:0|");
  Done(2);
  EXPECT_EQ(Meets(absl::Minutes(1)), "0:0 1:0|");
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

// Two groups cannot reach each other: after three exchanges in vain the highest of those that lack
// frames is left out of the fourth meeting, whoever is done.
TEST_F(Rounds, TheHighestThatLacksAnExchangeIsCutOffAtTheFourthMeeting) {
  const auto meets_at = [&](int64_t attempt) {
    question_.attempt = attempt - 1;
    store_.Set(question_.prefix() + "who", "0:0 1:0 2:1|");
    Say(question_.prefix() + "have", 2);  // group 2 has all, 1 has one stage's, 0 nothing
    store_.Set(question_.prefix() + "have/1/0", "1");
    question_.attempt = attempt;
    for (const int group : {0, 1, 2}) Done(group);
    return Meets(absl::Minutes(1));
  };
  EXPECT_EQ(meets_at(2), "0:0 1:0 2:1|");
  EXPECT_EQ(meets_at(3), "0:0 1:0 2:1|");
  EXPECT_EQ(meets_at(4), "0:0 2:1|");
  EXPECT_EQ(meets_at(5), "0:0 2:1|") << "and of each one after it";
}

TEST_F(Rounds, WhereAllHaveTheirFramesNobodyIsCutOff) {
  question_.attempt = 3;
  store_.Set(question_.prefix() + "who", "0:0 2:1|");
  Say(question_.prefix() + "have", 0);
  Say(question_.prefix() + "have", 2);
  question_.attempt = 4;
  for (const int group : {0, 1, 2}) Done(group);
  EXPECT_EQ(Meets(absl::Minutes(1)), "0:0 1:0 2:1|");
}

// A group of which half the stages are done is not done.
TEST_F(Rounds, EveryStageOfAGroupMustBeDone) {
  Done(0);
  Done(1);
  store_.Set(question_.prefix() + "done/2/0", "1");
  EXPECT_EQ(Meets(), "0:0 1:0|");
}

TEST_F(Rounds, AnExchangeGoesWhenAllHaveAllAndIsMadeAgainWhenOneWhoLacksIsDownOrLate) {
  const Lives two = {{0, 0}, {2, 1}};
  const auto outcome = [&](bool late) { return OutcomeOf(store_, "r3/a1/", two, late); };
  EXPECT_EQ(outcome(false), std::nullopt);
  EXPECT_EQ(outcome(true), "again");
  Say("r3/a1/have", 0);
  store_.Set("r3/a1/have/2/0", "1");
  EXPECT_EQ(outcome(false), std::nullopt) << "a stage of group 2 lacks its frames";
  Down(1, 0);
  Down(2, 0);
  EXPECT_EQ(outcome(false), std::nullopt) << "group 1 is no member, and life 0 of group 2 is past";
  Down(0, 0);
  EXPECT_EQ(outcome(false), std::nullopt) << "who is down and lacks nothing costs nothing";
  Down(2, 1);
  EXPECT_EQ(outcome(false), "again");
  store_.Set("r3/a1/have/2/1", "1");
  EXPECT_EQ(outcome(false), "go");
  EXPECT_EQ(outcome(true), "go") << "late or not";
}

TEST(RoundDeadlines, TheFirstMeetingCountsFromTheRoundsEndLaterOnesFromNow) {
  const absl::Duration met = absl::Seconds(100), now = absl::Seconds(107), late = absl::Seconds(9);
  EXPECT_EQ(MeetingDeadline(1, met, now, late), absl::Seconds(109));
  EXPECT_EQ(MeetingDeadline(2, met, now, late), absl::Seconds(116));
  EXPECT_EQ(ExchangeDeadline(now, absl::Seconds(30), late), absl::Seconds(107 + 60 + 9));
}

TEST(RoundMembers, AreAtLeastTheFewestAndOne) {
  EXPECT_EQ(TooFewMembers(3, 12, 2, 4, 2), "");
  EXPECT_EQ(TooFewMembers(3, 12, 1, 4, 2),
            "round 3 (step 12): 1 groups are left of 4, outer.min_groups is 2");
  EXPECT_EQ(TooFewMembers(3, 12, 1, 4, 1), "");
  EXPECT_NE(TooFewMembers(3, 12, 0, 4, 1), "");
}

// "0:0 2:1", and nothing else.
TEST(LivesText, ReadsBackAndRefusesOtherText) {
  EXPECT_EQ(LivesText({{0, 0}, {12, 3}}), "0:0 12:3");
  EXPECT_EQ(*LivesFrom("0:0 12:3"), (Lives{{0, 0}, {12, 3}}));
  EXPECT_EQ(*LivesFrom(""), Lives());
  for (const char* bad : {"0", "0:", "a:1", "0:1:2", "0:b"}) {
    EXPECT_EQ(LivesFrom(bad).status().code(), absl::StatusCode::kDataLoss) << bad;
  }
}

}  // namespace
}  // namespace longhaul
