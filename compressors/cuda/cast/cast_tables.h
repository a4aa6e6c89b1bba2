#pragma once

#include "compressors/cuda/cast/cast_launch.h"
#include "compressors/cuda/team/elements.h"
#include "compressors/cuda/team/launch_kernel.h"

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
    if (first + kElements <= run.elements && Aligned(in, 16) && Aligned(out, 16)) {
      Work<true>(team, first, in, out);
    } else {
      Work<false>(team, first, in, out);
    }
  }

  template <bool kWhole, class Team>
  LONGHAUL_TEXT void Work(Team& team, uint64_t first, const std::byte* in, std::byte* out) const {
    const auto place = [](int i, int t) { return static_cast<uint64_t>(i * kStrip + 8 * t); };
    typename Team::template Own<RawEight<kFrom>> raw[kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      team.Each([&](int t) {
        const uint64_t at = place(i, t);
        if constexpr (kWhole) {
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
      typename Team::template Own<RawEight<kTo>> converted;
      team.Each([&](int t) {
        const uint32_t abs = MaxBits(raw[i][t]);
        top[t] = abs > top[t] ? abs : top[t];
        if constexpr (kFrom == kTo) {
          converted[t] = raw[i][t];
        } else {
          Eight v;
          Widen<kFrom>(raw[i][t], v);
          Narrow<kTo>(v, converted[t]);
        }
      });
      if constexpr (kWhole) {
        StoreStrip<kTo>(team, converted, out + place(i, 0) * kOutBytes);
      } else {
        team.Each([&](int t) {
          const uint64_t at = place(i, t);
          StoreSome<Team, kTo>(converted[t], CountBelow(first + at, run.elements),
                               out + at * kOutBytes);
        });
      }
    }
    team.Each([&](int t) {
      if (top[t] >= kInfBits) Team::Min(&run.report->fault, 0);
    });
  }
};

template <class Launcher>
constexpr CastLaunchers MakeCastLaunchers() {
  using enum DType;
  return {{{{LaunchKernel<Launcher, CastKernel<kF32, kF32>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF32, kBF16>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF32, kF16>, CastRun>},
            {LaunchKernel<Launcher, CastKernel<kBF16, kF32>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kBF16, kBF16>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kBF16, kF16>, CastRun>},
            {LaunchKernel<Launcher, CastKernel<kF16, kF32>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF16, kBF16>, CastRun>,
             LaunchKernel<Launcher, CastKernel<kF16, kF16>, CastRun>}}}};
}

}  // namespace longhaul
