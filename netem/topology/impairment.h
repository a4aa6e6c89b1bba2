#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>

// What may befall the packets of a path. One more that has a probability is a field of RareEvents
// and its draw in Next(), a row in path_figure_table.cc, and what the emulators make of it:
// emulators/tap_network.cc and emulators/traffic_control.cc.
namespace longhaul {

// How a path's delay varies.
enum class JitterShape {
  kNormal,   // `jitter` is one standard deviation
  kUniform,  // `jitter` is half the width
};

// Loss in bursts (Gilbert-Elliott): two states; each packet is lost with the probability of the
// state it meets, and may change the state for the next one.
struct BurstLoss {
  double to_bad = 0;     // probability per packet of good -> bad
  double to_good = 1;    // of bad -> good; 1/to_good is the mean length of a burst
  double loss_bad = 1;   // loss probability in the bad state
  double loss_good = 0;  // and in the good one
};

// Independent probabilities per packet, [0, 1]: a reordered packet goes past the delay, once the
// rate has sent it; a duplicated one arrives twice, the copy paying its own way; a corrupted one
// has one bit flipped, which every checksum on its way makes a loss.
struct RareEvents {
  double reorder_prob = 0, duplicate_prob = 0, corrupt_prob = 0;
};

struct ImpairmentSpec {
  double loss_prob = 0;   // per frame, independent
  int64_t jitter_ns = 0;  // around the delay; standard deviation or half width by shape
  JitterShape jitter_shape = JitterShape::kNormal;
  std::optional<BurstLoss> burst_loss = std::nullopt;  // instead of loss_prob
  RareEvents rare = {};
};

// The randomness of one path: what becomes of each frame, and how much it is late. All of it comes
// from the seed and the number of frames so far, so the same traffic meets the same fate again.
class Impairment {
 public:
  // Of the draws of one path, by the seed of all.
  static uint64_t PathSeed(uint64_t seed, int from, int to) {
    return Mix(Mix(seed + kGolden) ^
               (static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)));
  }
  Impairment(const ImpairmentSpec& spec, uint64_t seed, int from, int to)
      : spec_(spec), state_(PathSeed(seed, from, to)), later_state_(Mix(~state_)) {}

  struct Fate {
    int64_t jitter_ns = 0;
    bool lost = false, reordered = false, duplicated = false, corrupted = false;
  };
  // The fate of the path's next frame. Eight draws whatever is asked for, so that changing one
  // figure leaves the others' draws where they were.
  Fate Next() {
    const double loss = Uniform(state_), turn = Uniform(state_);
    const double radius = Uniform(state_), angle = Uniform(state_);
    Fate fate{.lost = Lost(loss, turn)};
    fate.reordered = Uniform(later_state_) < spec_.rare.reorder_prob;
    fate.duplicated = Uniform(later_state_) < spec_.rare.duplicate_prob;
    fate.corrupted = Uniform(later_state_) < spec_.rare.corrupt_prob;
    flip_ = Draw(later_state_);
    if (spec_.jitter_ns == 0) return fate;
    const double unit = spec_.jitter_shape == JitterShape::kUniform
                            ? 2 * radius - 1
                            : std::sqrt(-2 * std::log1p(-radius)) *
                                  std::cos(2 * std::numbers::pi * angle);  // Box-Muller
    fate.jitter_ns = std::llround(unit * static_cast<double>(spec_.jitter_ns));
    return fate;
  }
  // A draw that says which bit of that frame is flipped, if it is corrupted.
  uint64_t flip() const { return flip_; }

  void Change(const ImpairmentSpec& spec) { spec_ = spec; }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush, the same on every host.
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  static uint64_t Draw(uint64_t& state) { return Mix(state += kGolden); }
  // [0, 1), 53 random bits
  static double Uniform(uint64_t& state) {
    return static_cast<double>(Draw(state) >> 11) * 0x1p-53;
  }

  bool Lost(double draw, double turn) {
    if (!spec_.burst_loss) return draw < spec_.loss_prob;
    const BurstLoss& b = *spec_.burst_loss;
    const bool lost = draw < (bad_ ? b.loss_bad : b.loss_good);
    if (turn < (bad_ ? b.to_good : b.to_bad)) bad_ = !bad_;
    return lost;
  }

  ImpairmentSpec spec_;
  uint64_t state_;
  uint64_t later_state_;  // of RareEvents
  uint64_t flip_ = 0;
  bool bad_ = false;  // of the two states of BurstLoss
};

}  // namespace longhaul
