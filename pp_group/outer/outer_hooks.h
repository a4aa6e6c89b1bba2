#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

// The rule of an outer algorithm that stands outside of the engine, of one stage on one rank: what is
// sent, and what the mean of it does. Everything else is Hooked's (hooked.cc).
class OuterHooks {
 public:
  struct Buffers {  // [N] f32 on the host each
    at::Tensor parameters;
    at::Tensor start;     // the parameters with which the round began
    at::Tensor crossing;  // what is sent, then the mean of all
  };
  virtual ~OuterHooks() = default;
  virtual const Buffers& buffers() const = 0;
  // What the rule keeps from round to round, [N] f32 each, by name.
  virtual const std::vector<std::pair<std::string, at::Tensor>>& state() const = 0;
  // Behind inner step `step`, of the parameters that it left: fills `crossing`.
  virtual absl::Status Send(int64_t step) = 0;
  // The mean changes the parameters. `lr`: the outer rate of the round.
  virtual absl::Status Apply(int64_t step, double lr) = 0;
};

struct OuterHooksPlace {
  int group, groups, stage, stages;
  int64_t steps;  // of the run
  uint64_t seed;
};
// `parameters`: those that the run begins with.
using NewOuterHooks = std::function<absl::StatusOr<std::unique_ptr<OuterHooks>>(
    const OuterSpec& spec, const OuterHooksPlace& place, const at::Tensor& parameters)>;

}  // namespace longhaul
