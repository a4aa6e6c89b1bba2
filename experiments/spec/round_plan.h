#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/spec/fault_script.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/spec_line.h"
#include "netem/topology/toml_tree.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

// What a fault script does to the membership of outer steps where time plays no part: in one
// process, in a simulation that asks only who was there, and over links whose groups come back
// before outer.round_deadline_s. A round is the inner steps between two outer steps; round r of
// H steps ends after step min(r H, steps), r from 1.
//   - A group that is killed in a round (a worker is enough) has lost it: it is no member of the
//     outer step that ends the round, takes over the others' state there and trains the next round.
//     A kill during "outer" costs the round that ends; one during "checkpoint" the round after the
//     checkpoint; one during "transfer" the round after the outer step at which somebody joins.
//   - One that leaves is no member from the outer step on that ends its step's round, until it
//   joins.
//   - One that joins in a round takes over the state at its end and trains the next. A group whose
//     first leave or join is a join is not there when the run begins.
//   - Stopped for ever: as killed. Slow, stopped for a time, cut off: these cost time alone.
struct RoundPlan {
  int64_t round;                 // 1-based
  int64_t last_step;             // the outer step follows it
  std::vector<int64_t> members;  // contribute to this outer step; ascending
  std::vector<int64_t> joiners;  // take over the state after it; ascending
  std::vector<int64_t> lost;     // were members when the round began, and are not any more
  friend bool operator==(const RoundPlan&, const RoundPlan&) = default;
};

struct RoundBounds {
  int64_t steps;             // of the run
  int64_t inner_steps;       // H, at least 1
  int64_t groups;            // G
  int64_t checkpoint_every;  // steps; 0: none, and kills during one never strike
  OuterPlan plan() const { return OuterPlan({.inner_steps = inner_steps}, steps); }
};

RoundBounds RoundBoundsOf(const RunSpec& spec);

// The rounds of a run under a drawn script (DrawFaults). It ends early with a round that has no
// members: nobody holds the training's state any more.
// Kills during a transfer of which there is none strike nobody.
std::vector<RoundPlan> PlanRounds(const std::vector<Fault>& drawn, const RoundBounds& bounds);

// The script without those kills during a transfer. `rounds`: its PlanRounds.
std::vector<Fault> WithoutKillsOfAbsentGroups(std::vector<Fault> drawn,
                                              const std::vector<RoundPlan>& rounds,
                                              const RoundBounds& bounds);

// The groups that are not there when the run begins: their first leave or join is a join.
std::set<int64_t> AbsentAtFirst(const std::vector<Fault>& drawn);

// The step in which a kill strikes, and whether only after that step's outer step: what `during`
// makes of at_step. Step 0: it never does, there is no such moment before the end.
struct Strike {
  int64_t step = 0;
  bool after_outer = false;
};
Strike StrikeOf(const Fault& fault, const RoundBounds& bounds);

// outer.schedule: [[0, 2], [200, 4]], pairs of a finished inner step and a number of groups. The
// first step is 0, steps ascend, are multiples of outer.inner_steps and less than the run's; one
// entry has all outer.groups, none fewer than outer.min_groups or as many as the one before.
// InvalidArgument with file and line. After the rest of the spec has been read.
absl::Status ReadGroupSchedule(const TomlValue& root, RunSpec& spec);

// The line that ReadGroupSchedule reads back; none where nothing is planned.
SpecLines GroupScheduleLines(const RunSpec& spec);

// The same as a script: who is not there at first joins when the round ends that ends with the
// entry's step; who goes leaves before the step after it, so that it is still a member of the outer
// step at which it goes.
std::vector<Fault> PlannedFaults(const RunSpec& spec);

// A script needs groups that may be lost, and a worker, a link or a checkpoint that it can strike.
// InvalidArgument with file and line.
absl::Status CheckFaults(const RunSpec& spec);

}  // namespace longhaul
