#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/fault_script.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/slowdowns.h"
#include "experiments/spec/spec.h"
#include "pp_group/schedule/clock.h"

namespace longhaul::scale {

// What a run would do in simulated time: the run's own spec, its faults, and what a simulation must
// be told beside them. A plain value.
struct ScaleSpec {
  RunSpec run;                   // with [compute]; S x G may be far more than a machine can start
  std::vector<Fault> faults;     // not drawn yet
  BoundaryLink inside, between;  // two stages of a group; the same stage of two groups
  // "[scale]", all optional:
  double restart_s = RunSpec::Compute::kRestartSeconds;  // compute.restart_s, if it is not given
  // After the first group is at the outer step, others have so long to come; who is later is left
  // out of the round. inf: whoever is alive is waited for.
  double round_deadline_s = std::numeric_limits<double>::infinity();
  // kShared: all frames of a rank to its peers go through its one access link, G-1 of them.
  // kPaths: every pair of ranks has a path of its own, as in a lab that is a full mesh.
  enum class Exchange { kShared, kPaths } exchange = Exchange::kShared;
  double mtbf_h = 0;  // each group is killed with exponential gaps of this mean; 0: never
};

// Groups that a simulation takes; a run's own limit is that of the machines.
inline constexpr int64_t kMostGroups = 100'000;
inline constexpr int64_t kMostStages = 1024;

// Reads a run spec and, beside its own tables, [[fault]] and
//   [scale]
//   restart_s = 30, round_deadline_s = 60, exchange = "shared" | "paths", between = "PROFILE",
//   mtbf_h = 24
// InvalidArgument with file and line, also where [compute] is missing, where groups never meet, and for
// a topology file in net.profile.
absl::StatusOr<ScaleSpec> ReadScaleSpec(TomlValue root, const SpecNames& names);

// Seconds per inner step of a group in the steady state, as the simulated clock of a training has them
// (train/simulated_clock.h), with planned bytes. Asked for once per kind of slowdown, then remembered.
class GroupPace {
 public:
  static absl::StatusOr<GroupPace> Of(const ScaleSpec& spec);

  double step_s() const { return step_s_; }
  // With the slowdowns of one group.
  double StepSeconds(const std::vector<Slowdown>& slowdowns);
  // Compute of all stages of a group in one step, for utilisation.
  double compute_s() const { return compute_s_; }

  // What carries a rank's outer exchange with `peers` others: frames of the largest stage, over TCP
  // connections (pp_group/schedule/wire.h) on one access line, or on a path with a queue of its own.
  Wire ExchangeWire(int64_t peers) const;
  // Connections of one rank's exchange that share a wire.
  double Connections(int64_t peers) const;
  // A frame of the largest stage on a line between two groups.
  const BoundaryLink& between() const { return between_; }
  // Weights and outer momentum of the largest stage from `sources` others, as the swarm gives them.
  double FetchSeconds(int64_t sources) const;

 private:
  PipelineProgram program_;
  PipelineCosts costs_;
  BoundaryLink between_{};
  ScaleSpec::Exchange exchange_ = ScaleSpec::Exchange::kShared;
  bool restarts_ = true;  // net.slow_start_after_idle
  double step_s_ = 0, compute_s_ = 0;
  int64_t largest_stage_ = 0;  // parameters
  std::map<std::vector<decltype(Slowdown().Key())>, double> known_;
};

// Training in simulated time, round by round: nothing is trained, nothing sleeps, equal (spec,
// seed) give equal figures.
//
// A round is H inner steps and the outer step behind them (data parallel groups: one step). A group
// starts when it holds the round's weights and takes its own steps' time. The outer step begins
// when the last member is there and ends for all one exchange later.
// Who is in it and when its groups go on is experiments/spec/group_timeline.h's.
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
