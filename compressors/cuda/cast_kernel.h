#pragma once

#include "compressors/cuda/cast_launch.h"
#include "compressors/cuda/elements.h"

namespace longhaul {

// A warp converts 1024 elements, a thread four times eight side by side, all loads first.
template <DType kFrom, DType kTo>
struct CastKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kStrips = 4;
  static constexpr uint64_t kElements = uint64_t{kStrips} * kStrip;
  static constexpr uint64_t kInBytes = kFrom == DType::kF32 ? 4 : 2;
  static constexpr uint64_t kOutBytes = kTo == DType::kF32 ? 4 : 2;

  CastRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.elements + kElements - 1) / kElements; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t first = team.index() * kElements;
    const std::byte* in = run.in + first * kInBytes;
    std::byte* out = run.out + first * kOutBytes;
    const bool whole = first + kElements <= run.elements && Aligned(in, 16) && Aligned(out, 16);
    const auto place = [](int i, int t) { return static_cast<uint64_t>(i * kStrip + 8 * t); };
    typename Team::template Own<RawEight<kFrom>> raw[kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) {
        const uint64_t at = place(i, t);
        if (whole) {
          LoadEight<Team, kFrom>(in + at * kInBytes, raw[i][t]);
        } else {
          LoadSome<Team, kFrom>(in + at * kInBytes, CountBelow(first + at, run.elements),
                                raw[i][t]);
        }
      });
    }
    typename Team::template Own<uint32_t> top;
    team.Each([&](int t) { top[t] = 0; });
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) {
        Eight v;
        Widen<kFrom>(raw[i][t], v);
        const uint32_t abs = MaxBits(v);
        top[t] = abs > top[t] ? abs : top[t];
        RawEight<kTo> converted;
        if constexpr (kFrom == kTo) {
          converted = raw[i][t];
        } else {
          Narrow<kTo>(v, converted);
        }
        const uint64_t at = place(i, t);
        if (whole) {
          StoreEight<Team, kTo>(converted, out + at * kOutBytes);
        } else {
          StoreSome<Team, kTo>(converted, CountBelow(first + at, run.elements),
                               out + at * kOutBytes);
        }
      });
    }
    team.Each([&](int t) {
      if (top[t] >= kInfBits) Team::Min(&run.report->fault, 0);
    });
  }
};

}  // namespace longhaul
