#pragma once

#include <cstdint>

namespace longhaul {

// Which frames of a connection its path loses, each with all that it carries. The n-th frame that a
// connection sends, repetitions counted, has draws of its own (Philox4x32, compressors/numbers/noise.h),
// so equal keys lose equal frames on every machine, however often a prediction is made.
struct FrameLoss {
  double prob = 0;  // of each frame, independent, [0, 1)
  // Instead, where to_bad > 0, by two states (Gilbert-Elliott): a frame is lost with the probability of
  // the state it meets, and may turn the state for the next one. 1 / to_good frames is a mean burst.
  double to_bad = 0, to_good = 1, loss_bad = 1, loss_good = 0;
  uint64_t key = 0;  // FoldSeed of the run's seed and both ends
  bool any() const { return prob > 0 || to_bad > 0; }
};

class FrameFates {
 public:
  // Of the connection's next frame: is it lost?
  bool Lost(const FrameLoss& loss);

 private:
  uint64_t frames_ = 0;
  bool bad_ = false;
};

}  // namespace longhaul
