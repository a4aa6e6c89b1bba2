#include "netem/topology/impairment.h"

#include <cmath>
#include <numbers>

namespace longhaul {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush, the same on every host.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t Draw(uint64_t& state) { return Mix(state += kGolden); }

// [0, 1), 53 random bits
double Uniform(uint64_t& state) { return static_cast<double>(Draw(state) >> 11) * 0x1p-53; }

}  // namespace

Impairment::Impairment(const ImpairmentSpec& spec, uint64_t seed, int from, int to)
    : spec_(spec),
      state_(Mix(Mix(seed + kGolden) ^
                 (static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)))),
      later_state_(Mix(~state_)) {}

bool Impairment::Lost(double draw, double turn) {
  if (!spec_.burst_loss) return draw < spec_.loss_prob;
  const BurstLoss& b = *spec_.burst_loss;
  const bool lost = draw < (bad_ ? b.loss_bad : b.loss_good);
  if (turn < (bad_ ? b.to_good : b.to_bad)) bad_ = !bad_;
  return lost;
}

Impairment::Fate Impairment::Next() {
  // Eight draws per frame whatever is asked for, so that changing one figure leaves the others'
  // draws where they were.
  const double loss = Uniform(state_);
  const double turn = Uniform(state_);
  const double radius = Uniform(state_);
  const double angle = Uniform(state_);
  Fate fate{.lost = Lost(loss, turn), .jitter_ns = 0};
  fate.reordered = Uniform(later_state_) < spec_.reorder_prob;
  fate.duplicated = Uniform(later_state_) < spec_.duplicate_prob;
  const bool corrupted = Uniform(later_state_) < spec_.corrupt_prob;
  const uint64_t flip = Draw(later_state_);
  if (corrupted) fate.flip = flip;
  if (spec_.jitter_ns == 0) return fate;
  const double unit = spec_.jitter_shape == JitterShape::kUniform
                          ? 2 * radius - 1
                          : std::sqrt(-2 * std::log1p(-radius)) *
                                std::cos(2 * std::numbers::pi * angle);  // Box-Muller
  fate.jitter_ns = std::llround(unit * static_cast<double>(spec_.jitter_ns));
  return fate;
}

ImpairmentSpec ImpairmentOf(const PathSpec& path) {
  return {path.loss_prob,    absl::ToInt64Nanoseconds(path.jitter),
          path.jitter_shape, path.burst_loss,
          path.reorder_prob, path.duplicate_prob,
          path.corrupt_prob};
}

}  // namespace longhaul
