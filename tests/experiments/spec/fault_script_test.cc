// Fault scripts: what is read, what is refused, what is drawn, and who is a member of which round.
#include "experiments/spec/fault_script.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/round_plan.h"
#include "experiments/spec/spec_keys.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr FaultBounds kBounds{.steps = 100, .groups = 3, .stages = 2};

absl::StatusOr<std::vector<Fault>> Read(const std::string& toml) {
  const auto root = ParseToml(toml, "demo.toml");
  if (!root.ok()) return root.status();
  return ReadFaults(*root, kBounds);
}

std::string Refusal(const std::string& fields) {
  return std::string(Read("[[fault]]\n" + fields).status().message());
}

constexpr char kEveryKind[] = R"(
[[fault]]
at_step = 40
what = "kill"
where = "group 1 stage 0"
during = "backward"
[[fault]]
at_step = 1
what = "stop"
where = "group 0"
for_s = 3
[[fault]]
at_step = 2
what = "slow"
where = "group 2 stage 1"
factor = 4.5
for_steps = 10
[[fault]]
at_step = 100
what = "link_down"
where = "link 0 - 5"
for_s = 1.5
[[fault]]
at_step = 3
what = "link_rate"
where = "link 2 > 0"
rate_mbit = 10
[[fault]]
at_step = 3
what = "link_delay"
where = "link 2 > 0"
delay_ms = 0
[[fault]]
at_step = 9
what = "disk_full"
where = "group 1"
[[fault]]
at_step = 9
what = "poison"
where = "group 1"
factor = nan
[[fault]]
at_step = 10
what = "leave"
where = "group 2"
[[fault]]
at_step = 20
what = "join"
where = "group 2"
[[fault]]
mean_time_between_steps = 30.5
what = "kill"
where = "any group"
[[fault]]
at_step = 5
what = "kill"
where = "lab"
)";

TEST(FaultScript, EveryKindReadsBackToEqualFaults) {
  const auto faults = Read(kEveryKind);
  ASSERT_TRUE(faults.ok()) << faults.status();
  ASSERT_EQ(faults->size(), 12u);
  EXPECT_EQ((*faults)[0].written, "demo.toml:2");
  EXPECT_EQ((*faults)[3].where.to, 5);
  EXPECT_TRUE((*faults)[3].where.both_ways);
  EXPECT_TRUE(std::isnan((*faults)[7].factor));
  const auto again = Read(TomlOf(FaultLines(*faults)));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *faults);
  EXPECT_EQ(Describe((*faults)[0]), "step 40: kill, group 1 stage 0, backward");
}

TEST(FaultScript, WhatMakesNoSenseIsOneLineWithItsPlace) {
  const std::string kill = "what = \"kill\"\n", group = "where = \"group 1\"\n";
  EXPECT_EQ(Refusal("at_step = 101\n" + kill + group),
            "demo.toml:2: 'fault.at_step' is 101; the run has the steps 1 to 100");
  EXPECT_THAT(Refusal("at_step = 0\n" + kill + group), HasSubstr("is 0; the run has"));
  EXPECT_EQ(Refusal("at_step = 4\nwhere = \"group 3\"\n" + kill),
            "demo.toml:3: 'fault.where' is 'group 3'; outer.groups = 3 has the groups 0 to 2");
  EXPECT_THAT(Refusal("at_step = 4\nwhere = \"group 0 stage 2\"\n" + kill),
              HasSubstr("has the stages 0 to 1"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"explode\"\n" + group), HasSubstr("'explode'"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"explode\"\n" + group), HasSubstr("link_down"));
  for (const char* place :
       {"group", "group -1", "group 1 stage", "group 1x", "link 0", "link 0 > 6", "link 1 > 1",
        "link 0 >  1", "everything", "group 99999999999999999999"}) {
    EXPECT_THAT(
        Refusal("at_step = 4\nwhat = \"link_down\"\nwhere = \"" + std::string(place) + "\"\n"),
        HasSubstr("demo.toml:4: 'fault.where'"))
        << place;
  }
  EXPECT_THAT(Refusal("at_step = 4\nwhere = \"link 0 > 1\"\n" + kill),
              HasSubstr("strikes no link"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"stop\"\nwhere = \"lab\"\n"), HasSubstr("only 'kill'"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"leave\"\nwhere = \"group 1 stage 0\"\n"),
              HasSubstr("a whole group"));
  EXPECT_THAT(Refusal(kill + group), HasSubstr("exactly one of"));
  EXPECT_THAT(Refusal("at_step = 4\nmean_time_between_steps = 5\n" + kill + group),
              HasSubstr("exactly one of"));
  EXPECT_THAT(Refusal("mean_time_between_steps = 0.5\n" + kill + group), HasSubstr("want 1"));
  EXPECT_THAT(Refusal("mean_time_between_steps = nan\n" + kill + group), HasSubstr("is nan"));
  EXPECT_THAT(Refusal("at_step = 4\nwhere = \"any group\"\n" + kill), HasSubstr("'any group'"));
  EXPECT_THAT(Refusal("at_step = 4\nfactor = 2\n" + kill + group),
              HasSubstr("'fault.factor' does not go with 'kill'"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"slow\"\n" + group), HasSubstr("fault.factor"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"slow\"\nfactor = 0.5\n" + group), HasSubstr("0.5"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"slow\"\nfactor = nan\n" + group), HasSubstr("nan"));
  EXPECT_THAT(Refusal("at_step = 4\nduring = \"lunch\"\n" + kill + group), HasSubstr("lunch"));
  EXPECT_THAT(Refusal("at_step = 4\nwhat = \"stop\"\nduring = \"outer\"\n" + group),
              HasSubstr("goes with 'kill'"));
  EXPECT_THAT(Refusal("at_step = 4\nhow = 3\n" + kill + group),
              HasSubstr("unknown key 'fault.how'"));
  EXPECT_THAT(std::string(Read("fault = 3\n").status().message()), HasSubstr("want tables"));
}

TEST(FaultScript, DrawsFollowTheSeedAndTheMean) {
  const auto rules = Read(
      "[[fault]]\nmean_time_between_steps = 20\nwhat = \"kill\"\n"
      "where = \"any group\"\n");
  ASSERT_TRUE(rules.ok()) << rules.status();
  FaultBounds bounds = kBounds;
  bounds.steps = 100'000;
  const std::vector<Fault> drawn = DrawFaults(*rules, bounds, 7);
  EXPECT_EQ(drawn, DrawFaults(*rules, bounds, 7));
  EXPECT_NE(drawn, DrawFaults(*rules, bounds, 8));
  // Gaps are rounded up: their mean is 1 / (1 - exp(-1/20)) = 20.504. 15,000 strikes: 1 % is 1.2
  // sd.
  const double expected = 3 * 100'000 / 20.504;
  EXPECT_NEAR(static_cast<double>(drawn.size()), expected, 0.03 * expected);
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_TRUE(drawn[i].at_step >= 1 && drawn[i].at_step <= bounds.steps);
    if (i > 0) {
      EXPECT_LE(drawn[i - 1].at_step, drawn[i].at_step);
    }
  }
}

std::vector<RoundPlan> Plan(const std::string& toml, int64_t steps = 12, int64_t every = 0) {
  const auto faults = Read(toml);
  EXPECT_TRUE(faults.ok()) << faults.status();
  return PlanRounds(DrawFaults(*faults, kBounds, 1),
                    {.steps = steps, .inner_steps = 4, .groups = 3, .checkpoint_every = every});
}

std::string KillOne(const std::string& fields) {
  return "[[fault]]\nwhat = \"kill\"\nwhere = \"group 1 stage 0\"\n" + fields;
}

TEST(RoundPlan, WithoutFaultsEveryGroupIsAMemberOfEveryRound) {
  const auto rounds = Plan("", 10);
  ASSERT_EQ(rounds.size(), 3u);
  for (const RoundPlan& round : rounds) EXPECT_THAT(round.members, ElementsAre(0, 1, 2));
  EXPECT_EQ(rounds[2].last_step, 10) << "the last round is a short one";
}

TEST(RoundPlan, AKilledGroupMissesItsRoundAndIsBackForTheNext) {
  const auto rounds = Plan(KillOne("at_step = 6\n"));
  EXPECT_THAT(rounds[0].members, ElementsAre(0, 1, 2));
  EXPECT_THAT(rounds[1].members, ElementsAre(0, 2));
  EXPECT_THAT(rounds[1].lost, ElementsAre(1));
  EXPECT_THAT(rounds[1].joiners, ElementsAre(1));
  EXPECT_THAT(rounds[2].members, ElementsAre(0, 1, 2));
  EXPECT_THAT(rounds[2].lost, IsEmpty());
}

TEST(RoundPlan, TheMomentOfAKillSaysWhichRoundIsLost) {
  EXPECT_THAT(Plan(KillOne("at_step = 5\nduring = \"outer\"\n"))[1].members, ElementsAre(0, 2));
  // After the checkpoint of step 8, which ends round 2: round 3 is lost.
  const auto rounds = Plan(KillOne("at_step = 5\nduring = \"checkpoint\"\n"), 12, 8);
  EXPECT_THAT(rounds[1].members, ElementsAre(0, 1, 2));
  EXPECT_THAT(rounds[2].members, ElementsAre(0, 2));
  for (const RoundPlan& round : Plan(KillOne("at_step = 9\nduring = \"checkpoint\"\n"), 12, 8)) {
    EXPECT_THAT(round.members, ElementsAre(0, 1, 2)) << "there is no checkpoint after step 8";
  }
}

TEST(RoundPlan, AKillInATransferCostsTheRoundAfterIt) {
  const std::string joins = KillOne("at_step = 2\n");
  const std::string in_transfer =
      "[[fault]]\nwhat = \"kill\"\nwhere = \"group 2\"\nat_step = 3\nduring = \"transfer\"\n";
  const auto rounds = Plan(joins + in_transfer);
  EXPECT_THAT(rounds[0].members, ElementsAre(0, 2)) << "it is there until group 1 joins";
  EXPECT_THAT(rounds[0].joiners, ElementsAre(1));
  EXPECT_THAT(rounds[1].members, ElementsAre(0, 1));
  EXPECT_THAT(rounds[1].lost, ElementsAre(2));
  EXPECT_THAT(rounds[2].members, ElementsAre(0, 1, 2));
  for (const RoundPlan& round : Plan(in_transfer)) {
    EXPECT_THAT(round.members, ElementsAre(0, 1, 2)) << "nobody joins, so there is no transfer";
  }
}

TEST(RoundPlan, KillsInTransfersThatAreNoneAreTakenOut) {
  const std::string in_transfer =
      "[[fault]]\nwhat = \"kill\"\nwhere = \"group 2\"\nat_step = 3\nduring = \"transfer\"\n";
  const RoundBounds bounds{.steps = 12, .inner_steps = 4, .groups = 3, .checkpoint_every = 0};
  const auto left = [&](const std::string& toml) {
    const std::vector<Fault> drawn = DrawFaults(*Read(toml), kBounds, 1);
    return WithoutKillsOfAbsentGroups(drawn, PlanRounds(drawn, bounds), bounds).size();
  };
  EXPECT_EQ(left(in_transfer), 0u);
  EXPECT_EQ(left(KillOne("at_step = 2\n") + in_transfer), 2u);
  EXPECT_EQ(left(KillOne("at_step = 10\n") + in_transfer), 1u) << "nobody joins after step 4";
  const std::string gone = "[[fault]]\nwhat = \"leave\"\nwhere = \"group 2\"\nat_step = 1\n";
  EXPECT_EQ(left(KillOne("at_step = 2\n") + gone + in_transfer), 2u) << "it is not there";
}

TEST(RoundPlan, OneThatLeavesStaysAwayUntilItJoins) {
  const auto rounds = Plan(R"(
[[fault]]
what = "leave"
where = "group 2"
at_step = 2
[[fault]]
what = "join"
where = "group 2"
at_step = 7
)",
                           16);
  EXPECT_THAT(rounds[0].members, ElementsAre(0, 1));
  EXPECT_THAT(rounds[0].joiners, IsEmpty());
  EXPECT_THAT(rounds[1].members, ElementsAre(0, 1));
  EXPECT_THAT(rounds[1].joiners, ElementsAre(2));
  EXPECT_THAT(rounds[2].members, ElementsAre(0, 1, 2));
}

TEST(RoundPlan, AGroupWhoseFirstWordIsJoinComesLater) {
  const auto rounds = Plan("[[fault]]\nwhat = \"join\"\nwhere = \"group 0\"\nat_step = 1\n");
  EXPECT_THAT(rounds[0].members, ElementsAre(1, 2));
  EXPECT_THAT(rounds[0].lost, IsEmpty());
  EXPECT_THAT(rounds[1].members, ElementsAre(0, 1, 2));
}

TEST(RoundPlan, WhenAllAreLostNobodyHoldsTheTraining) {
  std::string toml;
  for (const char* g : {"0", "1", "2"}) {
    toml += "[[fault]]\nwhat = \"kill\"\nwhere = \"group " + std::string(g) + "\"\nat_step = 6\n";
  }
  const auto rounds = Plan(toml);
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_THAT(rounds[1].members, IsEmpty());
}

// 20 steps in rounds of 8, a checkpoint every 6: rounds end after 8, 16 and 20.
TEST(StrikeOf, MomentsAreTheFirstAtOrAfterTheStepAndNoneBehindTheLast) {
  const RoundBounds bounds{.steps = 20, .inner_steps = 8, .groups = 3, .checkpoint_every = 6};
  const auto at = [&](FaultMoment during, int64_t step) {
    Fault fault;
    fault.at_step = step;
    fault.during = during;
    const Strike strike = StrikeOf(fault, bounds);
    return std::pair(strike.step, strike.after_outer);
  };
  EXPECT_EQ(at(FaultMoment::kBegin, 20), std::pair(int64_t{20}, false));
  EXPECT_EQ(at(FaultMoment::kBackward, 7), std::pair(int64_t{7}, false));
  EXPECT_EQ(at(FaultMoment::kOuter, 8), std::pair(int64_t{8}, false));
  EXPECT_EQ(at(FaultMoment::kOuter, 9), std::pair(int64_t{16}, false));
  EXPECT_EQ(at(FaultMoment::kOuter, 17), std::pair(int64_t{20}, false)) << "the last, a short one";
  EXPECT_EQ(at(FaultMoment::kTransfer, 16), std::pair(int64_t{16}, true));
  EXPECT_EQ(at(FaultMoment::kTransfer, 17).first, 0) << "nobody joins after the last step";
  EXPECT_EQ(at(FaultMoment::kCheckpoint, 7), std::pair(int64_t{12}, true));
  EXPECT_EQ(at(FaultMoment::kCheckpoint, 18), std::pair(int64_t{18}, true));
  EXPECT_EQ(at(FaultMoment::kCheckpoint, 19).first, 0);
  const RoundBounds even{.steps = 16, .inner_steps = 8, .groups = 3, .checkpoint_every = 16};
  Fault last;
  last.at_step = 9;
  for (const FaultMoment moment : {FaultMoment::kTransfer, FaultMoment::kCheckpoint}) {
    last.during = moment;
    EXPECT_EQ(StrikeOf(last, even).step, 0) << "at the very last step there is none either";
  }
}

}  // namespace
}  // namespace longhaul
