#pragma once

#include <cstdint>

namespace longhaul {

// The randomness of one path: which frames are lost and how much each is late. All of it comes from
// the seed and the number of frames so far, so the same traffic meets the same fate again.
struct ImpairmentSpec {
  double loss_prob = 0;   // per frame, independent
  int64_t jitter_ns = 0;  // standard deviation of a normal distribution around the delay
};

class Impairment {
 public:
  Impairment(const ImpairmentSpec& spec, uint64_t seed, int from, int to);

  struct Fate {
    bool lost;
    int64_t jitter_ns;
  };
  // The fate of the path's next frame.
  Fate Next();

  void Change(const ImpairmentSpec& spec) { spec_ = spec; }

 private:
  double Uniform();  // [0, 1), 53 random bits
  ImpairmentSpec spec_;
  uint64_t state_;
};

}  // namespace longhaul
