#include "netem/impairment.h"

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

}  // namespace

Impairment::Impairment(const ImpairmentSpec& spec, uint64_t seed, int from, int to)
    : spec_(spec),
      state_(Mix(Mix(seed + kGolden) ^
                 (static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)))) {}

double Impairment::Uniform() {
  state_ += kGolden;
  return static_cast<double>(Mix(state_) >> 11) * 0x1p-53;
}

bool Impairment::Lost(double draw, double turn) {
  if (!spec_.burst_loss) return draw < spec_.loss_prob;
  const BurstLoss& b = *spec_.burst_loss;
  const bool lost = draw < (bad_ ? b.loss_bad : b.loss_good);
  if (turn < (bad_ ? b.to_good : b.to_bad)) bad_ = !bad_;
  return lost;
}

Impairment::Fate Impairment::Next() {
  // Four draws per frame whatever is asked for, so that changing one figure leaves the others'
  // draws where they were.
  const double loss = Uniform();
  const double turn = Uniform();
  const double radius = Uniform();
  const double angle = Uniform();
  Fate fate{Lost(loss, turn), 0};
  if (spec_.jitter_ns == 0) return fate;
  const double unit = spec_.jitter_shape == JitterShape::kUniform
                          ? 2 * radius - 1
                          : std::sqrt(-2 * std::log1p(-radius)) *
                                std::cos(2 * std::numbers::pi * angle);  // Box-Muller
  fate.jitter_ns = std::llround(unit * static_cast<double>(spec_.jitter_ns));
  return fate;
}

ImpairmentSpec ImpairmentOf(const PathSpec& path) {
  return {path.loss_prob, absl::ToInt64Nanoseconds(path.jitter), path.jitter_shape,
          path.burst_loss};
}

}  // namespace longhaul
