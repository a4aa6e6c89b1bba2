#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace longhaul {

// How many runs of a campaign are on its GPUs at a time: one each at first, and one more each while that makes all
// of them together train at least kWorth times the tokens a second; from then on as many as were worth it. A run in
// excess goes on to its end. What memory and cores hold is judged elsewhere: where fewer runs than allowed() can
// begin, the number stays.
class RateRule {
 public:
  static constexpr double kWorth = 1.05;
  // A rate is that of so long at least, and of so many events, so that it has steps of every run.
  static constexpr absl::Duration kWindow = absl::Seconds(5);
  static constexpr int kEventsOfARun = 8;

  explicit RateRule(int gpus) : gpus_(gpus), allowed_(gpus) {}

  int allowed() const { return allowed_; }
  bool settled() const { return settled_; }

  // A run has begun or ended: `running` are left. A rate that was being measured is nobody's.
  void Changed(int running);
  // At `now`, of a monotonic clock: `tokens` have been trained in all, and `training` of the runs have
  // finished a step.
  void Trained(absl::Duration now, int64_t tokens, int training);

 private:
  struct Window {
    absl::Duration begin;
    int64_t tokens;
    int events = 0;
  };
  const int gpus_;
  int allowed_, running_ = 0;
  bool settled_ = false;
  std::optional<Window> window_;
  std::optional<double> before_;  // tokens a second of gpus_ runs fewer
};

}  // namespace longhaul
