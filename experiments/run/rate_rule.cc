#include "experiments/run/rate_rule.h"

namespace longhaul {

void RateRule::Changed(int running) {
  running_ = running;
  window_.reset();
}

void RateRule::Trained(absl::Duration now, int64_t tokens, int training) {
  if (settled_ || running_ != allowed_ || training != running_) return;
  if (!window_) {
    window_ = Window{.begin = now, .tokens = tokens};
    return;
  }
  const absl::Duration took = now - window_->begin;
  if (++window_->events < kEventsOfARun * running_ || took < kWindow) return;
  const double rate = static_cast<double>(tokens - window_->tokens) / absl::ToDoubleSeconds(took);
  window_.reset();
  settled_ = before_ && rate < kWorth * *before_;
  before_ = rate;
  allowed_ += settled_ ? -gpus_ : gpus_;
}

}  // namespace longhaul
