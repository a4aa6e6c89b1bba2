#include "pp_group/schedule/congestion.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

constexpr double kLeastEach = 2;  // acknowledgements for a segment more: half a window a round trip
constexpr double kUnknownEach = 20;

}  // namespace

void LossWindow::Sample(double now, double rtt_s, int64_t until, int64_t next) {
  least_rtt_ = std::min(least_rtt_, rtt_s);
  if (control_ != CongestionControl::kCubic || window >= threshold) return;
  if (until > round_ends_) {
    round_ends_ = next;
    round_began_ = last_train_ = now;
    round_rtt_ = rtt_s;
    samples_ = 0;
  }
  if (window < kHystartWindow || epoch_ != kNone) return;
  bool full = false;
  if (now - last_train_ <= kTrainGap) {
    last_train_ = now;
    full = now - round_began_ > least_rtt_ / 2;
  }
  round_rtt_ = std::min(round_rtt_, rtt_s);
  if (samples_ < kHystartSamples) {
    ++samples_;
  } else {
    full |= round_rtt_ > least_rtt_ + std::clamp(least_rtt_ / 8, kLeastHeldUp, kMostHeldUp);
  }
  if (full) threshold = window;
}

void LossWindow::Grow(double now, double segments) {
  if (window < threshold) {
    const double slow = std::min(segments, threshold - window);
    window += slow;
    segments -= slow;
    if (segments == 0) return;
  }
  const double each = control_ == CongestionControl::kCubic ? CubicEach(now, segments) : window;
  // What was counted while more were wanted for one grows by one.
  if (acknowledged_ >= each) {
    acknowledged_ = 0;
    ++window;
  }
  acknowledged_ += segments;
  const double more = std::floor(acknowledged_ / each);
  acknowledged_ -= more * each;
  window += more;
}

// After how many acknowledgements the window grows by one.
double LossWindow::CubicEach(double now, double segments) {
  if (epoch_ == kNone) {
    epoch_ = now;
    reno_window_ = window;
    reno_acknowledged_ = 0;
    origin_ = std::max(most_, window);
    back_s_ = std::cbrt((origin_ - window) / kCubic);
  }
  const double target = origin_ + kCubic * std::pow(now - epoch_ + least_rtt_ - back_s_, 3);
  double each = target > window ? window / (target - window) : 100 * window;
  if (most_ == 0) each = std::min(each, kUnknownEach);
  reno_acknowledged_ += segments;
  for (; reno_acknowledged_ > window / kAsReno; ++reno_window_) {
    reno_acknowledged_ -= window / kAsReno;
  }
  if (reno_window_ > window) each = std::min(each, window / (reno_window_ - window));
  return std::max(each, kLeastEach);
}

void LossWindow::Lose() {
  const bool cubic = control_ == CongestionControl::kCubic;
  most_ = window < most_ ? kMakesRoom * window : window;
  epoch_ = kNone;
  acknowledged_ = 0;
  threshold = std::max(2.0, std::floor((cubic ? kCubicKeeps : kRenoKeeps) * window));
}

void LossWindow::Collapse(double left) {
  window = left;
  acknowledged_ = most_ = 0;
}

void LossWindow::Halve(double times, double restart) {
  threshold = std::max(threshold, std::floor(0.75 * window));
  window = std::max(std::min(window, restart), std::floor(window * std::exp2(-times)));
}

}  // namespace longhaul
