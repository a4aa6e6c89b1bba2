#pragma once

#include <cstdint>
#include <optional>

#include "netem/topology/topology.h"

namespace longhaul {

// The randomness of one path: which frames are lost and how much each is late. All of it comes from
// the seed and the number of frames so far, so the same traffic meets the same fate again.
struct ImpairmentSpec {
  double loss_prob = 0;   // per frame, independent
  int64_t jitter_ns = 0;  // around the delay; standard deviation or half width by shape
  JitterShape jitter_shape = JitterShape::kNormal;
  std::optional<BurstLoss> burst_loss = std::nullopt;  // instead of loss_prob
  double reorder_prob = 0, duplicate_prob = 0, corrupt_prob = 0;
};
ImpairmentSpec ImpairmentOf(const PathSpec& path);

class Impairment {
 public:
  Impairment(const ImpairmentSpec& spec, uint64_t seed, int from, int to);

  struct Fate {
    bool lost;
    int64_t jitter_ns;
    bool reordered = false, duplicated = false;
    std::optional<uint64_t> flip = std::nullopt;  // corrupted: a draw that says which bit
  };
  // The fate of the path's next frame.
  Fate Next();

  void Change(const ImpairmentSpec& spec) { spec_ = spec; }

 private:
  bool Lost(double draw, double turn);
  ImpairmentSpec spec_;
  uint64_t state_;
  uint64_t later_state_;  // of reordering, duplication and corruption
  bool bad_ = false;      // of the two states of BurstLoss
};

}  // namespace longhaul
