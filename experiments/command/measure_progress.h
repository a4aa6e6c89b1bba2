#pragma once

#include <cstdio>

#include "absl/time/time.h"
#include "experiments/run/pace.h"
#include "experiments/run/run_pool.h"

namespace longhaul {

// `jobs` runs at a time, whatever they need; 0: as many as the cores hold.
PoolLimits LimitsOf(int jobs);

// One line, rewritten in place on a terminal: how much is done and, once there is a pace, how long
// the rest will take at it.
class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* out);
  void Show(const CampaignProgress& p);

 private:
  std::FILE* const out_;
  const bool terminal_;
  Pace pace_;
  absl::Duration last_ = -absl::InfiniteDuration();
};

}  // namespace longhaul
