#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "experiments/spec/fault_script.h"
#include "experiments/spec/round_plan.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

// When groups that come and go are in which round, under a drawn script: the one model of runs in
// simulated time (planning/scale.h) and of the simulated clock of a training (train/simulated_clock.h),
// which say how long steps, exchanges and transfers take. Seconds count from the run's start. Pure
// arithmetic; one thread.
//   - The outer step begins when the last member is there.
//   - A group killed in a round (stopped for ever: the same) loses it. It is started anew, waits for
//     the round's end, fetches the weights and trains the next one, late by that. A kill in the outer
//     step costs the others the peer deadline, a kill at a checkpoint the round after it.
//   - Who is later than the round's deadline is left out as if killed, but need not start anew. Who
//     would be later again, weights fetched, sits the next round out and fetches those behind it.
//   - One that joins is started when the round begins at whose end it takes the weights over.
//   - Without a deadline the members of every round are PlanRounds' of the same script.
class GroupTimeline {
 public:
  struct Rules {
    double restart_s;  // from a kill to a group that could train, if it had the weights
    double
        round_deadline_s;  // others have so long behind the first at the outer step; inf: no limit
    double peer_deadline_s;  // net.peer_deadline_s
  };
  GroupTimeline(const std::vector<Fault>& drawn, const RoundBounds& bounds, const Rules& rules);

  // What strikes a group in a round, beside what makes it slow (slowdowns.h).
  struct RoundFaults {
    std::optional<int64_t> killed_at, left_at;  // before this step
    bool in_outer = false;     // the kill: not before its step, but in the round's outer step
    bool in_transfer = false;  // killed if somebody took weights over when the round before ended
    bool joins = false, poisoned = false;
    struct Stop {
      int64_t step, stage;  // -1: all stages
      double seconds;
    };
    std::vector<Stop> stops = {};
    // The first step that it does not do; nullopt: it does all of the round's.
    std::optional<int64_t> EndsAt() const;
    double StoppedSeconds() const;  // in the steps before that
  };

  // A round's calls: BeginRound; Arrives or Ends for each group that trains in it; Meet; EndRound.
  void BeginRound(int64_t round);  // from 1, one after the other
  // It is there when the round begins, and does not sit it out.
  bool Trains(int64_t group) const;
  double ready_s(int64_t group) const { return groups_[static_cast<size_t>(group)].ready_s; }
  const RoundFaults* FaultsOf(int64_t group) const;  // in this round; null: nothing strikes it

  void Arrives(int64_t group, double s);  // at the outer step
  void Ends(int64_t group, double s);     // killed, stopped for ever or left
  struct Meeting {
    std::vector<int64_t> members = {};  // ascending; none: nobody holds the weights, all is over
    int64_t poisoned = 0;               // members whose deltas are left out
    int64_t in_vain = 0;                // groups that trained and are no members
    double begins_s = 0;                // its exchange
  };
  Meeting Meet();
  // The members hold the new weights at `end_s`; fetching them would take a group so long.
  void EndRound(double end_s, const std::function<double(int64_t group)>& fetch_s);

 private:
  struct Group {
    bool present = true;
    double ready_s = 0;     // when it can begin the next round
    double arrives_s = 0;   // at this round's outer step
    double restarts_s = 0;  // when it could begin to fetch, of one that lost this round
    bool sits_out = false;
  };
  void Add(const Fault& fault);
  bool Late(const Group& group) const;

  const RoundBounds bounds_;
  const OuterPlan plan_;
  const Rules rules_;
  std::vector<Group> groups_;
  std::map<int64_t, std::map<int64_t, RoundFaults>> faults_;  // by round, then group
  const std::map<int64_t, RoundFaults>* now_ = nullptr;       // of this round; null: nothing
  double began_s_ = 0, deadline_s_ = 0;
  bool killed_in_outer_ = false, taken_over_ = false;
};

}  // namespace longhaul
