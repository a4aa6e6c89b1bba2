#pragma once

#include "compressors/cuda/block/block_geometry.h"

namespace longhaul {

// All block schemes: a thread unpacks eight neighbouring codes, so that x is written in 16-byte
// pieces side by side. Every address follows from the shape, none from the bytes, so a hostile
// payload can only be refused.
template <size_t kIndex, DType kType>
struct DecodeBlocksKernel {
  static constexpr BlockScheme kScheme = kBlockSchemes[kIndex];
  static constexpr int kThreads = kWarp;
  static constexpr bool kRotated = kScheme.rotation == Rotation::kHadamard;
  using Span = BlockSpan<kScheme, kType>;

  BlockRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  struct Scale {
    float s, z;
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    if (span.whole) {
      Work<true>(team, span);
    } else {
      Work<false>(team, span);
    }
  }

  // All loads first.
  template <bool kWhole, class Team>
  LONGHAUL_TEXT void Work(Team& team, const Span& span) const {
    typename Team::template Own<uint64_t> codes[Span::kStrips];
    typename Team::template Own<Scale> scale[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      if constexpr (kWhole) {
        LoadWarpBytes<kScheme.bits>(team, span.Codes(i), codes[i]);
      } else {
        team.Each([&](int t) {
          codes[i][t] = LoadBytes<Team>(span.Codes(i) + t * kScheme.bits,
                                        (span.Count(i, t) * kScheme.bits + 7) / 8);
        });
      }
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) {
        scale[i][t] = {};
        if (!kWhole && span.Count(i, t) == 0) return;
        const uint64_t block = span.Block(i, t);
        if (!LoadScale<kScheme, Team>(run, block, scale[i][t].s, scale[i][t].z)) {
          Team::Min(&run.report->fault, FaultKey(block, BlockFault::kNotFinite));
        }
      });
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      if constexpr (kWhole) SpreadWarpBytes<kScheme.bits>(team, codes[i]);
      Strip<kWhole>(team, span, i, codes[i], scale[i]);
    }
  }

  template <bool kWhole, class Team, class Codes, class Scales>
  LONGHAUL_TEXT void Strip(Team& team, const Span& span, int i, const Codes& codes,
                           const Scales& scale) const {
    typename Team::template Own<Eight> v;
    team.Each([&](int t) { Values<kWhole, Team>(span, i, t, codes[t], scale[t], v[t]); });
    if constexpr (kRotated) {
      auto rotated = v;
      HadamardSumsAcross<kScheme.block>(team, rotated);
      team.Each([&](int t) {
        if (kWhole || span.FullBlock(i, t)) Unrotate(span.At(i, t), rotated[t], scale[t], v[t]);
      });
    }
    typename Team::template Own<RawEight<kType>> raw;
    team.Each([&](int t) {
      if constexpr (kScheme.grid == Grid::kE2M1) {
        if (run.stochastic) FinishStochastic(span.Element(i, t), v[t]);
      }
      Narrow<kType>(v[t], raw[t]);
    });
    if constexpr (kWhole) {
      StoreStrip<kType>(team, raw, span.X(i, 0));
    } else {
      team.Each([&](int t) { StoreSome<Team, kType>(raw[t], span.Count(i, t), span.X(i, t)); });
    }
  }

  // Thread t's codes -> values, 0 behind the end of the row; steps in a full block that was
  // rotated.
  template <bool kWhole, class Team>
  LONGHAUL_TEXT void Values(const Span& span, int i, int t, uint64_t codes, const Scale& scale,
                            Eight& v) const {
    [[maybe_unused]] const int count = kWhole ? kPerThread : span.Count(i, t);
    if (HasNoNumber<kScheme>(codes)) {
      Team::Min(&run.report->fault, FaultKey(span.Block(i, t), BlockFault::kNotFinite));
    }
    [[maybe_unused]] const bool rotated = kRotated && (kWhole || span.FullBlock(i, t));
    if constexpr (kScheme.grid == Grid::kE4M3 || kScheme.grid == Grid::kE5M2) {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; e += 2) {
        const auto pair = static_cast<uint32_t>(codes >> (8 * e)) & 0xFFFF;
        WidenMiniPair<MiniOf(kScheme.grid)>(pair, v.x[e], v.x[e + 1]);
        v.x[e] *= scale.s;
        v.x[e + 1] *= scale.s;
      }
    } else {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        const auto code = static_cast<uint32_t>(codes >> (kScheme.bits * e)) & kCodeMask;
        v.x[e] = rotated ? StepsOf<kScheme>(code) : ValueOf<kScheme>(code, scale.s, scale.z);
        if (e >= count) v.x[e] = 0;
      }
    }
  }

  // The sums of a rotated block -> its values.
  LONGHAUL_TEXT void Unrotate(uint64_t at, const Eight& sums, const Scale& scale, Eight& v) const {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) v.x[e] = sums.x[e] * UnrotatedStep(kScheme) * scale.s;
    const bool first = at % kScheme.block == 0;
    if (kScheme.grid == Grid::kAffine && first) v.x[0] += scale.z / HadamardNorm(kScheme.block);
  }

  // What E2M1's stochastic form leaves to do (stochastic.h).
  LONGHAUL_TEXT void FinishStochastic(uint64_t first, Eight& v) const {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const float most = FromBits(kInfBits - 1);
      v.x[e] = ClampTo(v.x[e] * kWidenE2m1, -most, most);
    }
    if constexpr (kRotated) FlipSigns(run.seed, first, v);
  }

  static constexpr uint32_t kCodeMask = (1u << kScheme.bits) - 1;
};

}  // namespace longhaul
