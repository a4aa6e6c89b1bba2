#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "absl/status/statusor.h"
#include "planning/scale/scale_spec.h"
#include "pp_group/schedule/makespan.h"

namespace longhaul::scale {

// What makes one group slower than the others for a while. Of several faults the later ones win.
struct Hindrance {
  int64_t stage = -1;           // -1: every stage
  double slow = 1;              // factor on compute
  int64_t boundary = -1;        // of the link below; -1: no link
  bool forward = true;          // s -> s + 1
  double rate_bit_per_s = 0;    // 0: the profile's
  double one_way_delay_s = -1;  // < 0: the profile's
  // What the link takes for its messages with what hinders it.
  Wire On(Wire wire) const;
  auto Key() const {
    return std::tuple(stage, slow, boundary, forward, rate_bit_per_s, one_way_delay_s);
  }
};

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
  double weight_bytes_ = 0;  // of the largest stage
  std::map<std::vector<decltype(Hindrance().Key())>, double> known_;
};

}  // namespace longhaul::scale
