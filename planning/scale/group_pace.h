#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "absl/status/statusor.h"
#include "experiments/spec/hindrances.h"
#include "planning/scale/scale_spec.h"
#include "pp_group/schedule/makespan.h"

namespace longhaul::scale {

// Seconds per inner step of a group in the steady state, as the simulated clock of a training has them
// (train/simulated_clock.h), with planned bytes. Asked for once per kind of hindrance, then remembered.
class GroupPace {
 public:
  static absl::StatusOr<GroupPace> Of(const ScaleSpec& spec);

  double step_s() const { return step_s_; }
  // With the hindrances of one group.
  double StepSeconds(const std::vector<Hindrance>& hindrances);
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
  std::map<std::vector<decltype(Hindrance().Key())>, double> known_;
};

}  // namespace longhaul::scale
