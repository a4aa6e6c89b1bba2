// Groups that come and go on a clock whose steps, exchanges and transfers take what the test says.
#include "experiments/spec/group_timeline.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::ElementsAre;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kStep = 10, kExchange = 3, kFetch = 5, kRestart = 7, kPeerDeadline = 11;

Fault Of(FaultKind what, int64_t group, int64_t step, FaultMoment during = FaultMoment::kBegin) {
  Fault fault;
  fault.what = what;
  fault.where = {.kind = FaultPlace::Kind::kGroup, .group = group};
  fault.at_step = step;
  fault.during = during;
  return fault;
}

struct Played {
  std::vector<std::vector<int64_t>> members;  // by round, up to the first that has none
  std::vector<double> ends;
  int64_t in_vain = 0;
};
Played Play(const std::vector<Fault>& drawn, const RoundBounds& bounds, double restart_s = kRestart,
            double round_deadline_s = kNone) {
  GroupTimeline timeline(drawn, bounds,
                         {.restart_s = restart_s,
                          .round_deadline_s = round_deadline_s,
                          .peer_deadline_s = kPeerDeadline});
  const OuterPlan plan = bounds.plan();
  Played played;
  for (int64_t round = 1; round <= plan.rounds(); ++round) {
    timeline.BeginRound(round);
    const int64_t first = plan.FirstStepOf(round), last = plan.LastStepOf(round);
    for (int64_t g = 0; g < bounds.groups; ++g) {
      if (!timeline.Trains(g)) continue;
      const GroupTimeline::RoundFaults* faults = timeline.FaultsOf(g);
      const auto ends_at = faults == nullptr ? std::nullopt : faults->EndsAt();
      const double stopped_s = faults == nullptr ? 0 : faults->StoppedSeconds();
      const int64_t steps = ends_at.value_or(last + 1) - first;
      const double s = timeline.ready_s(g) + static_cast<double>(steps) * kStep + stopped_s;
      if (ends_at || (faults != nullptr && faults->in_outer)) {
        timeline.Ends(g, s);
      } else {
        timeline.Arrives(g, s);
      }
    }
    const GroupTimeline::Meeting meeting = timeline.Meet();
    played.in_vain += meeting.in_vain;
    if (meeting.members.empty()) break;
    played.members.push_back(meeting.members);
    played.ends.push_back(meeting.begins_s + kExchange);
    timeline.EndRound(played.ends.back(), [](int64_t) { return kFetch; });
  }
  return played;
}

// Rounds of two steps: a round is 23 s.
constexpr RoundBounds kTwo{.steps = 6, .inner_steps = 2, .groups = 2, .checkpoint_every = 0};

TEST(GroupTimeline, AKilledGroupIsLateByWhatItsRestartAndTransferTakeLongerThanTheRound) {
  EXPECT_THAT(Play({}, kTwo).ends, ElementsAre(23, 46, 69));
  // Killed at 23, it could train at 30, and the round ends at 46.
  const Played quick = Play({Of(FaultKind::kKill, 1, 3)}, kTwo);
  EXPECT_THAT(quick.ends, ElementsAre(23, 46, 46 + kFetch + 23));
  EXPECT_THAT(quick.members, ElementsAre(ElementsAre(0, 1), ElementsAre(0), ElementsAre(0, 1)));
  EXPECT_EQ(quick.in_vain, 1);
  // A step later it is killed at 33; a restart of 100 s ends at 133.
  EXPECT_THAT(Play({Of(FaultKind::kKill, 1, 4)}, kTwo, 100).ends,
              ElementsAre(23, 46, 33 + 100 + kFetch + 23));
  // At the outer step, 43, the others wait for it; it restarts at 50, before they are done at 57.
  EXPECT_THAT(Play({Of(FaultKind::kKill, 1, 3, FaultMoment::kOuter)}, kTwo).ends,
              ElementsAre(23, 46 + kPeerDeadline, 57 + kFetch + 23));
}

TEST(GroupTimeline, AStopCostsItsSecondsAndOneForEverIsAKill) {
  Fault stop = Of(FaultKind::kStop, 1, 3);
  EXPECT_EQ(Play({stop}, kTwo).ends, Play({Of(FaultKind::kKill, 1, 3)}, kTwo).ends);
  stop.for_s = 2;
  EXPECT_THAT(Play({stop}, kTwo).ends, ElementsAre(23, 48, 71));
  // What would have stopped it after its end does not.
  stop.at_step = 4;
  EXPECT_THAT(Play({Of(FaultKind::kKill, 1, 4), stop}, kTwo, 100).ends,
              ElementsAre(23, 46, 33 + 100 + kFetch + 23));
}

TEST(GroupTimeline, OneThatJoinsIsStartedWithTheRoundAtWhoseEndItHasTheWeights) {
  const Played played = Play({Of(FaultKind::kJoin, 1, 2)}, kTwo, 40);
  EXPECT_THAT(played.members, ElementsAre(ElementsAre(0), ElementsAre(0, 1), ElementsAre(0, 1)));
  EXPECT_THAT(played.ends, ElementsAre(23, 40 + kFetch + 23, 40 + kFetch + 46));
}

TEST(GroupTimeline, WhoIsLateIsLeftOutAndSitsOutWhatItWouldBeLateForAgain) {
  Fault stop = Of(FaultKind::kStop, 1, 1);
  stop.for_s = 30;
  const Played waits = Play({stop}, kTwo, kRestart, 30), leaves = Play({stop}, kTwo, kRestart, 29);
  EXPECT_THAT(waits.ends, ElementsAre(53, 76, 99));
  // There at 50, when the others are done since 23: with the weights at 55 it is late by 32.
  EXPECT_THAT(leaves.members, ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(0, 1)));
  EXPECT_THAT(leaves.ends, ElementsAre(23, 46, 55 + 23));
  EXPECT_EQ(leaves.in_vain, 1);
}

// Whatever is drawn: kills at every moment, stops, leaves, joins, in any order.
TEST(GroupTimeline, MembersAreThoseThatRoundPlansHave) {
  constexpr RoundBounds kBounds{.steps = 38, .inner_steps = 5, .groups = 4, .checkpoint_every = 3};
  constexpr FaultKind kKinds[] = {FaultKind::kKill,  FaultKind::kKill, FaultKind::kStop,
                                  FaultKind::kLeave, FaultKind::kJoin, FaultKind::kPoison,
                                  FaultKind::kSlow};
  std::mt19937 random(1);
  const auto below = [&random](uint32_t n) { return static_cast<int64_t>(random() % n); };
  int64_t transfers = 0, ended = 0;
  for (int script = 0; script < 2000; ++script) {
    std::vector<Fault> drawn;
    for (int64_t n = below(12); n >= 0; --n) {
      const FaultKind what = kKinds[below(std::size(kKinds))];
      const auto during =
          what == FaultKind::kKill ? static_cast<FaultMoment>(below(6)) : FaultMoment::kBegin;
      drawn.push_back(Of(what, below(4), 1 + below(38), during));
      drawn.back().for_s = what == FaultKind::kStop ? static_cast<double>(below(2)) : 0;
      transfers += during == FaultMoment::kTransfer;
    }
    std::stable_sort(drawn.begin(), drawn.end(),
                     [](const Fault& a, const Fault& b) { return a.at_step < b.at_step; });
    std::vector<std::vector<int64_t>> planned;
    for (const RoundPlan& round : PlanRounds(drawn, kBounds)) {
      if (!round.members.empty()) planned.push_back(round.members);
    }
    ended += planned.size() < 8;
    std::string text;
    for (const Fault& fault : drawn) text += Describe(fault) + "\n";
    ASSERT_EQ(Play(drawn, kBounds).members, planned) << text;
  }
  EXPECT_GT(transfers, 100);
  EXPECT_GT(ended, 10);
}

}  // namespace
}  // namespace longhaul
