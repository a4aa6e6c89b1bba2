#pragma once

#include <cstdint>
#include <optional>

#include "netem/topology.h"

namespace longhaul {

// The randomness of one path: which frames are lost and how much each is late. All of it comes from
// the seed and the number of frames so far, so the same traffic meets the same fate again.
struct ImpairmentSpec {
  double loss_prob = 0;   // per frame, independent
  int64_t jitter_ns = 0;  // around the delay; standard deviation or half width by shape
  JitterShape jitter_shape = JitterShape::kNormal;
  std::optional<BurstLoss> burst_loss = std::nullopt;  // instead of loss_prob
};
ImpairmentSpec ImpairmentOf(const PathSpec& path);

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
  bool Lost(double draw, double turn);
  double Uniform();  // [0, 1), 53 random bits
  ImpairmentSpec spec_;
  uint64_t state_;
  bool bad_ = false;  // of the two states of BurstLoss
};

}  // namespace longhaul
