#include "pp_group/schedule/bbr.h"

#include <algorithm>
#include <cmath>

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

constexpr double kRecentRounds = 10;
constexpr double kStartGain = 739.0 / 256,
                 kDrainGain = 88.0 / 256;  // in 1/256, as the kernel counts
constexpr double kWindowGain = 2, kPaceMargin = 0.99;
constexpr double kPhases[] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};
constexpr int kPhaseCount = 8, kRandomPhases = 7;
constexpr double kFullGrowth = 1.25, kFullRounds = 3;
constexpr double kRttWindow_s = 10, kRttProbe_s = 0.2, kLeastWindow = 4, kFirstSegments = 10;
// Bursts hold what the pace gives in 1/1024 s, two segments at least, one below 1.2 Mbit/s.
constexpr double kBurstsPerSecond = 1024, kLeastBurst = 2, kMostBurst = 127;
constexpr double kSegmentBits = 1448 * 8, kSlowBits = 1.2e6;

}  // namespace

void RecentMost::Add(double round, double value) {
  const Seen seen{round, value};
  if (value >= of_[0].value || round - of_[2].round > kRecentRounds) {
    of_[0] = of_[1] = of_[2] = seen;
    return;
  }
  if (value >= of_[1].value) {
    of_[2] = of_[1] = seen;
  } else if (value >= of_[2].value) {
    of_[2] = seen;
  }
  const double since = round - of_[0].round;
  if (since > kRecentRounds) {  // the best is too old: the others move up
    of_[0] = of_[1];
    of_[1] = of_[2];
    of_[2] = seen;
    if (round - of_[0].round > kRecentRounds) {
      of_[0] = of_[1];
      of_[1] = of_[2];
    }
  } else if (of_[1].round == of_[0].round && since > kRecentRounds / 4) {
    of_[2] = of_[1] = seen;
  } else if (of_[2].round == of_[1].round && since > kRecentRounds / 2) {
    of_[2] = seen;
  }
}

Bbr::Bbr(double first_window, double rtt_s, double now, uint64_t key)
    : key_(key), window_(first_window), least_rtt_(rtt_s), least_rtt_at_(now) {
  pace_ = rtt_s > 0 ? kStartGain * kPaceMargin * first_window / rtt_s : INFINITY;
}

double Bbr::PaceGain() const {
  switch (mode_) {
    case Mode::kStartup:
      return kStartGain;
    case Mode::kDrain:
      return kDrainGain;
    case Mode::kProbeRate:
      return kPhases[phase_];
    case Mode::kProbeRtt:
      break;
  }
  return 1;
}

double Bbr::WindowGain() const {
  if (mode_ == Mode::kProbeRtt) return 1;
  return mode_ == Mode::kProbeRate ? kWindowGain : kStartGain;
}

double Bbr::burst() const {
  const double least = pace_ * kSegmentBits < kSlowBits ? 1 : kLeastBurst;
  return std::clamp(std::floor(pace_ / kBurstsPerSecond), least, kMostBurst);
}

double Bbr::Budget(double window) const {
  window = std::ceil((window + 3 * burst()) / 2) * 2;
  return window + (mode_ == Mode::kProbeRate && phase_ == 0 ? 2 : 0);
}

double Bbr::Holds(double gain) const { return std::ceil(rate() * least_rtt_ * gain); }

// Of what is under way, what will be on the path when the next burst leaves.
double Bbr::InPath(const DeliveryRate& rate, const SenderState& state, double under_way) const {
  const double gone = this->rate() * std::max(0.0, state.next_burst - rate.now);
  return std::max(0.0, under_way + (PaceGain() > 1 ? burst() : 0) - gone);
}

void Bbr::SetPace(double gain) {
  const double pace = rate() * gain * kPaceMargin;
  if (full_ || pace > pace_) pace_ = pace;
}

void Bbr::Acknowledged(const DeliveryRate& rate, SenderState state) {
  round_begins_ = false;
  if (rate.interval_s > 0) {
    if (rate.before >= round_ends_) {
      round_ends_ = state.delivered;
      ++rounds_;
      round_begins_ = true;
      conserves_ = false;
    }
    const double seen = rate.delivered / rate.interval_s;
    if (!rate.application_limited || seen >= this->rate()) most_.Add(rounds_, seen);
  }
  Cycle(rate, state);
  LeaveStartup(rate, state);
  WatchRtt(rate, state);
  SetPace(PaceGain());
  SetWindow(state);
}

void Bbr::Cycle(const DeliveryRate& rate, const SenderState& state) {
  if (mode_ != Mode::kProbeRate) return;
  const double gain = PaceGain();
  const bool whole = rate.now - phase_began_ > least_rtt_;
  const double there = InPath(rate, state, state.under_way_before);
  bool next = whole;
  if (gain > 1) next = whole && (state.lost > 0 || there >= Budget(Holds(gain)));
  if (gain < 1) next = whole || there <= Budget(Holds(1));
  if (!next) return;
  phase_ = (phase_ + 1) % kPhaseCount;
  phase_began_ = rate.now;
}

void Bbr::LeaveStartup(const DeliveryRate& rate, const SenderState& state) {
  if (!full_ && round_begins_ && !rate.application_limited) {
    if (this->rate() >= kFullGrowth * full_rate_) {
      full_rate_ = this->rate();
      full_rounds_ = 0;
    } else {
      full_ = ++full_rounds_ >= kFullRounds;
    }
  }
  if (mode_ == Mode::kStartup && full_) mode_ = Mode::kDrain;
  if (mode_ == Mode::kDrain && InPath(rate, state, state.under_way) <= Budget(Holds(1))) {
    ProbeRate(rate.now);
  }
}

// Begins anywhere in the cycle but where the pace is low.
void Bbr::ProbeRate(double now) {
  mode_ = Mode::kProbeRate;
  const uint64_t draw = NoiseWord(key_, NoisePurpose::kRateCycle, cycles_++);
  phase_ = (kPhaseCount - static_cast<int>(draw * kRandomPhases >> 32)) % kPhaseCount;
  phase_began_ = now;
}

void Bbr::WatchRtt(const DeliveryRate& rate, const SenderState& state) {
  const bool old = rate.now > least_rtt_at_ + kRttWindow_s;
  // Equal ones are not less, however they were rounded: in whole microseconds.
  const double rtt_s = std::round(rate.rtt_s * 1e6) / 1e6;
  if (rate.rtt_s >= 0 && (rtt_s < least_rtt_ || old)) {
    least_rtt_ = rtt_s;
    least_rtt_at_ = rate.now;
  }
  if (old && !restarts_ && mode_ != Mode::kProbeRtt) {
    Keep();
    mode_ = Mode::kProbeRtt;
    probe_ends_ = -1;
  }
  if (mode_ == Mode::kProbeRtt) {
    if (probe_ends_ < 0 && state.under_way <= kLeastWindow) {
      probe_ends_ = rate.now + kRttProbe_s;
      probe_round_ = false;
      round_ends_ = state.delivered;
    } else if (probe_ends_ >= 0) {
      probe_round_ |= round_begins_;
      if (probe_round_) EndRttProbe(rate.now);
    }
  }
  if (rate.delivered > 0) restarts_ = false;
}

void Bbr::EndRttProbe(double now) {
  if (probe_ends_ < 0 || now <= probe_ends_) return;
  least_rtt_at_ = now;
  window_ = std::max(window_, kept_);
  mode_ = Mode::kStartup;
  if (full_) ProbeRate(now);
}

void Bbr::Keep() {
  kept_ = !recovers_ && mode_ != Mode::kProbeRtt ? window_ : std::max(kept_, window_);
}

void Bbr::SetWindow(const SenderState& state) {
  if (state.lost > 0) window_ = std::max(1.0, window_ - state.lost);
  if (state.recovers && !recovers_) {
    conserves_ = true;
    round_ends_ = state.delivered;
    window_ = state.under_way + state.told;
  } else if (!state.recovers && recovers_) {
    conserves_ = false;
    window_ = std::max(window_, kept_);
  }
  recovers_ = state.recovers;
  if (conserves_) {
    window_ = std::max(window_, state.under_way + state.told);
  } else {
    const double most = Budget(Holds(WindowGain()));
    if (full_) {
      window_ = std::min(window_ + state.told, most);
    } else if (window_ < most || state.delivered < kFirstSegments) {
      window_ += state.told;
    }
    window_ = std::max(window_, kLeastWindow);
  }
  if (mode_ == Mode::kProbeRtt) window_ = std::min(window_, kLeastWindow);
}

void Bbr::Restarts(double now, bool application_limited) {
  if (!application_limited) return;
  restarts_ = true;
  if (mode_ == Mode::kProbeRate) SetPace(1);
  if (mode_ == Mode::kProbeRtt) EndRttProbe(now);
}

void Bbr::Recovers() { Keep(); }

void Bbr::Collapse(double window) {
  Keep();
  recovers_ = true;
  window_ = window;
  full_rate_ = 0;
}

}  // namespace longhaul
