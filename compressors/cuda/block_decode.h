#pragma once

#include "compressors/cuda/block_geometry.h"

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

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    typename Team::template Own<uint64_t> codes[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      if (span.whole) {
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
      if (span.whole) SpreadWarpBytes<kScheme.bits>(team, codes[i]);
      Strip(team, span, i, codes[i]);
    }
  }

  template <class Team, class Codes>
  LONGHAUL_TEXT void Strip(Team& team, const Span& span, int i, const Codes& codes) const {
    typename Team::template Own<Eight> v;
    typename Team::template Own<Scale> scale;
    team.Each([&](int t) { Values<Team>(span, i, t, codes[t], v[t], scale[t]); });
    if constexpr (kRotated) {
      auto rotated = v;
      HadamardSumsAcross<kScheme.block>(team, rotated);
      team.Each([&](int t) {
        if (span.FullBlock(i, t)) Unrotate(span.At(i, t), rotated[t], scale[t], v[t]);
      });
    }
    team.Each([&](int t) {
      if constexpr (kScheme.grid == Grid::kE2M1) {
        if (run.stochastic) FinishStochastic(span.Element(i, t), v[t]);
      }
      RawEight<kType> raw;
      Narrow<kType>(v[t], raw);
      if (span.whole) {
        StoreEight<Team, kType>(raw, span.X(i, t));
      } else {
        StoreSome<Team, kType>(raw, span.Count(i, t), span.X(i, t));
      }
    });
  }

  struct Scale {
    float s, z;
  };

  // Thread t's codes -> values, 0 behind the end of the row; steps in a full block that was
  // rotated.
  template <class Team>
  LONGHAUL_TEXT void Values(const Span& span, int i, int t, uint64_t codes, Eight& v,
                            Scale& scale) const {
    const int count = span.Count(i, t);
    v = {};
    scale = {};
    if (count == 0) return;
    const uint64_t block = span.Block(i, t);
    bool bad = !LoadScale<kScheme, Team>(run, block, scale.s, scale.z);
    const bool rotated = kRotated && span.FullBlock(i, t);
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const auto code = static_cast<uint32_t>(codes >> (kScheme.bits * e)) & kCodeMask;
      if (e >= count) continue;
      v.x[e] = rotated ? StepsOf<kScheme>(code) : ValueOf<kScheme>(code, scale.s, scale.z, bad);
    }
    if (bad) Team::Min(&run.report->fault, FaultKey(block, BlockFault::kNotFinite));
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
