#pragma once

#include "compressors/cuda/team/elements.h"

namespace longhaul {

struct TensorMaxRun {
  const std::byte* x;  // [elements]
  uint64_t elements;
  uint32_t* top;  // the largest |x| as bits goes here, if larger than what stands there
};

// Whole-tensor pass of the codecs that have a scale for all of it; *top >= kInfBits where NaN or
// Inf is among them.
template <DType kType>
struct TensorMaxKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kStrips = kType == DType::kF32 ? 2 : 4;  // loaded together
  static constexpr int kRounds = 16;                            // so that few warps meet at *top
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr uint64_t kElements = uint64_t{kStrips} * kStrip;

  TensorMaxRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const {
    return (run.elements + kRounds * kElements - 1) / (kRounds * kElements);
  }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    typename Team::template Own<uint32_t> top;
    team.Each([&](int t) {
      top[t] = 0;
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t first = (team.index() * kRounds + static_cast<uint64_t>(round)) * kElements;
        const uint32_t here = Round<Team>(first, t);
        top[t] = here > top[t] ? here : top[t];
      }
    });
    Fold<kWarp>(team, top, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
    team.Each([&](int t) {
      if (t == 0) Team::Max(run.top, top[t]);
    });
  }

  template <class Team>
  LONGHAUL_TEXT uint32_t Round(uint64_t first, int t) const {
    const bool whole = first + kElements <= run.elements && Aligned(run.x, 16);
    RawEight<kType> raw[kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      const uint64_t at = first + static_cast<uint64_t>(i * kStrip + kPerThread * t);
      if (whole) {
        LoadEight<Team, kType>(run.x + at * kElementBytes, raw[i]);
      } else {
        LoadSome<Team, kType>(run.x + at * kElementBytes, CountBelow(at, run.elements), raw[i]);
      }
    }
    uint32_t top = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      Eight v;
      Widen<kType>(raw[i], v);
      const uint32_t here = MaxBits(v);
      top = here > top ? here : top;
    }
    return top;
  }
};

}  // namespace longhaul
