#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/scale/group_pace.h"
#include "planning/scale/scale_spec.h"

namespace longhaul::scale {

// Training in simulated time, round by round: nothing is trained, nothing sleeps, equal (spec,
// seed) give equal figures.
//
// A round is H inner steps and the outer step behind them (data parallel groups: one step). A group
// starts when it holds the round's weights and takes its own steps' time. The outer step begins
// when the last member is there and ends for all one exchange later.
// Who is in it and when its groups go on is experiments/spec/group_course.h's.
//   - A poisoned group's tokens do not count; its time is spent.
//   - Slow, stopped for a time and hindered links cost time; of a link between groups, what the
//     outer step then lasts longer. disk_full costs nothing here: no checkpoint is written.
struct RoundResult {
  double end_s;     // when the members hold the new weights
  int64_t members;  // whose tokens count
};

struct ScaleResult {
  uint64_t seed = 0;
  int64_t rounds = 0, faults = 0;
  double seconds = 0;
  double tokens_counted = 0, tokens_lost = 0;  // lost: of groups that began a round in vain
  double compute_s = 0;                        // of all workers, whatever came of it
  double exchange_s = 0;                       // outer steps
  double goodput() const { return seconds > 0 ? tokens_counted / seconds : 0; }
  double utilisation = 0;  // compute_s over all workers' time
  double round_mean_s = 0, round_p50_s = 0, round_p95_s = 0, round_max_s = 0;
  // "": all steps were simulated. Else why it ended early.
  std::string ended_early;
  std::vector<RoundResult> by_round;
};

// `pace` is GroupPace::Of(spec).
ScaleResult SimulateRounds(const ScaleSpec& spec, GroupPace& pace, uint64_t seed);

// Tokens per second of a run without faults and without outer steps: G B T / step.
double IdealGoodput(const ScaleSpec& spec, const GroupPace& pace);

}  // namespace longhaul::scale
