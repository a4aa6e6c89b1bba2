#pragma once

#include <functional>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

// What a stage's compute takes, for runs that measure the pipeline around it: stages then sleep
// instead of computing (engines/injected/stage.h).
struct InjectedCompute {
  std::vector<absl::Duration> forward = {}, backward = {};  // per stage and micro-batch; S of each
  absl::Duration optimizer;                                 // per stage and inner step
  // Blocks the thread; a test may move its clock instead.
  std::function<void(absl::Duration)> sleep;
};

}  // namespace longhaul
