#pragma once

#include "compressors/cuda/block_geometry.h"

namespace longhaul {

// Blocks of 16 to 128: a warp's strip of 256 elements is 2 to 16 whole blocks, a block belongs to
// kBlock / 8 neighbouring threads, and its maximum is found by that many threads' shuffles. x is
// read once.
template <size_t kIndex, DType kType, Rounding kRounding>
struct EncodeBlocksKernel {
  static constexpr BlockScheme kScheme = kBlockSchemes[kIndex];
  static constexpr int kThreads = kWarp;
  static constexpr int kBlockThreads = kScheme.block / kPerThread;
  static constexpr bool kRotated = kScheme.rotation == Rotation::kHadamard;
  using Span = BlockSpan<kScheme, kType>;
  static_assert(kBlockThreads <= kWarp / 2);

  BlockRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    typename Team::template Own<RawEight<kType>> raw[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) {
        if (span.whole) {
          LoadEight<Team, kType>(span.X(i, t), raw[i][t]);
        } else {
          LoadSome<Team, kType>(span.X(i, t), span.Count(i, t), raw[i][t]);
        }
      });
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) Strip(team, span, i, raw[i]);
  }

  template <class Team, class Raw>
  LONGHAUL_TEXT void Strip(Team& team, const Span& span, int i, const Raw& raw) const {
    typename Team::template Own<Eight> v;
    team.Each([&](int t) { Widen<kType>(raw[t], v[t]); });
    if constexpr (kRotated) Rotate(team, span, i, v);

    typename Team::template Own<uint32_t> top;
    typename Team::template Own<float> low, high;
    team.Each([&](int t) {
      top[t] = MaxBits(v[t]);
      low[t] = high[t] = 0;
      if constexpr (kScheme.grid == Grid::kAffine) {
        Range(v[t], span.Count(i, t), low[t], high[t]);
      }
    });
    Fold<kBlockThreads>(team, top, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
    if constexpr (kScheme.grid == Grid::kAffine) {
      Fold<kBlockThreads>(team, low, [](float a, float b) { return b < a ? b : a; });
      Fold<kBlockThreads>(team, high, [](float a, float b) { return b > a ? b : a; });
    }

    typename Team::template Own<uint64_t> codes;
    team.Each([&](int t) {
      const BlockScale b = ScaleOf<kScheme>(top[t], low[t], high[t]);
      codes[t] =
          PackEight<kScheme, kRounding>(v[t], span.Count(i, t), b, run.seed, span.Element(i, t));
      if (t % kBlockThreads == 0 && span.Count(i, t) > 0) {
        const uint64_t block = span.Block(i, t);
        StoreScale<kScheme, Team>(run, block, b);
        if (b.fault != BlockFault::kNone) Team::Min(&run.report->fault, FaultKey(block, b.fault));
      }
    });
    if (span.whole) {
      StoreWarpBytes<kScheme.bits>(team, codes, span.Codes(i));
    } else {
      team.Each([&](int t) {
        StoreBytes<Team>(codes[t], (span.Count(i, t) * kScheme.bits + 7) / 8,
                         span.Codes(i) + t * kScheme.bits);
      });
    }
  }

  template <class Team, class Eights>
  LONGHAUL_TEXT void Rotate(Team& team, const Span& span, int i, Eights& v) const {
    if constexpr (kRounding == Rounding::kStochastic && kScheme.grid == Grid::kE2M1) {
      team.Each([&](int t) { FlipSigns(run.seed, span.Element(i, t), v[t]); });
    }
    Eights rotated = v;
    HadamardAcross<kScheme.block>(team, rotated);
    team.Each([&](int t) {
      if (span.FullBlock(i, t)) v[t] = rotated[t];
    });
  }

  // Least and largest of the first `count`; the ends of the number line where there are none.
  LONGHAUL_TEXT static void Range(const Eight& v, int count, float& low, float& high) {
    low = FromBits(kInfBits);
    high = FromBits(kInfBits | 0x80000000);
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      if (e >= count) continue;
      low = v.x[e] < low ? v.x[e] : low;
      high = v.x[e] > high ? v.x[e] : high;
    }
  }
};

// Blocks of 4096: one team of 512 threads holds the whole block in registers, so x is still read
// once.
template <size_t kIndex, DType kType, Rounding kRounding>
struct EncodeLargeBlocksKernel {
  static constexpr BlockScheme kScheme = kBlockSchemes[kIndex];
  static constexpr int kThreads = kScheme.block / kPerThread;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static_assert(kScheme.grid == Grid::kSymmetric && kScheme.bits == 8 &&
                kScheme.rotation == Rotation::kNone);

  BlockRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.row_blocks; }

  struct WarpTops {
    uint32_t top[kThreads / kWarp];
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t block = team.index(), row = block / run.row_blocks;
    const uint64_t first = (block - row * run.row_blocks) * kScheme.block;
    const std::byte* x = run.x + (row * run.cols + first) * kElementBytes;
    std::byte* codes = run.codes + row * run.row_code_bytes + first;
    const bool whole = first + kScheme.block <= run.cols && Aligned(x, 16) && Aligned(codes, 8);
    const auto count = [&](int t) {
      return CountBelow(first + static_cast<uint64_t>(t * kPerThread), run.cols);
    };

    typename Team::template Own<Eight> v;
    typename Team::template Own<uint32_t> top;
    team.Each([&](int t) {
      RawEight<kType> raw;
      const std::byte* at = x + static_cast<uint64_t>(t * kPerThread) * kElementBytes;
      if (whole) {
        LoadEight<Team, kType>(at, raw);
      } else {
        LoadSome<Team, kType>(at, count(t), raw);
      }
      Widen<kType>(raw, v[t]);
      top[t] = MaxBits(v[t]);
    });
    const auto larger = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
    Fold<kWarp>(team, top, larger);
    typename Team::template Shared<WarpTops> shared;
    team.Phase([&](int t) {
      if (t % kWarp == 0) shared->top[t / kWarp] = top[t];
    });
    team.Phase([&](int t) { top[t] = shared->top[t % (kThreads / kWarp)]; });
    Fold<kThreads / kWarp>(team, top, larger);

    team.Each([&](int t) {
      const BlockScale b = ScaleOf<kScheme>(top[t], 0.0f, 0.0f);
      const uint64_t packed = PackEight<kScheme, kRounding>(
          v[t], count(t), b, run.seed, row * run.cols + first + static_cast<uint64_t>(t) * 8);
      if (whole) {
        Team::Store(packed, codes + 8 * t);
      } else {
        StoreBytes<Team>(packed, count(t), codes + 8 * t);
      }
      if (t == 0) {
        StoreScale<kScheme, Team>(run, block, b);
        if (b.fault != BlockFault::kNone) Team::Min(&run.report->fault, FaultKey(block, b.fault));
      }
    });
  }
};

}  // namespace longhaul
