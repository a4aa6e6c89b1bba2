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

Impairment::Fate Impairment::Next() {
  // Three draws per frame whatever is asked for, so that changing one figure leaves the others'
  // draws where they were.
  const double loss = Uniform();
  const double radius = Uniform();
  const double angle = Uniform();
  Fate fate{loss < spec_.loss_prob, 0};
  if (spec_.jitter_ns > 0) {
    const double normal =
        std::sqrt(-2 * std::log1p(-radius)) * std::cos(2 * std::numbers::pi * angle);  // Box-Muller
    fate.jitter_ns = std::llround(normal * static_cast<double>(spec_.jitter_ns));
  }
  return fate;
}

}  // namespace longhaul
