#pragma once

#include <type_traits>

#include "compressors/cuda/block/block_geometry.h"
#include "compressors/cuda/team/team.h"

namespace longhaul {

// Folds of several strips at once: kWidth neighbouring threads have one value of each of kStrips
// strips, and want each strip's fold over them. Where halves of the threads fold halves of the
// strips, half the shuffles do: a thread ends with the folds of kLeft strips, one of them where
// kWidth >= kStrips, so what is made of a fold is made once and not by all threads.
template <int kWidth, int kStrips>
struct StripFold {
  static constexpr int kLeft = kStrips > kWidth ? kStrips / kWidth : 1;

  // own[0 .. kLeft) become the folds. op: commutative and associative on what it is given.
  template <class Team, class T, class Op>
  LONGHAUL_TEXT static void Fold(Team& team, T (&own)[kStrips], Op op) {
    int have = kStrips;
    LONGHAUL_UNROLL
    for (int mask = 1; mask < kWidth; mask *= 2) {
      const int half = have / 2;
      LONGHAUL_UNROLL
      for (int i = 0; i < kStrips; ++i) {
        if (i >= (have == 1 ? 1 : half)) continue;
        T sent = own[i];
        if (have > 1) {
          team.Each([&](int t) {
            if ((t & mask) == 0) {
              sent[t] = own[i + half][t];
            } else {
              own[i][t] = own[i + half][t];
            }
          });
        }
        const auto got = team.Xor(sent, mask);
        team.Each([&](int t) { own[i][t] = op(own[i][t], got[t]); });
      }
      if (have > 1) have = half;
    }
  }

  // The strip whose fold is own[i] on thread t.
  LONGHAUL_TEXT static int StripOf(int t, int i) {
    int strip = i, half = kStrips / 2;
    LONGHAUL_UNROLL
    for (int mask = 1; mask < kWidth && half > 0; mask *= 2) {
      strip += (t & mask) == 0 ? 0 : half;
      half /= 2;
    }
    return strip;
  }
  // Several threads end with the same folds where kWidth > kStrips: the one that answers for them.
  LONGHAUL_TEXT static bool Answers(int t) { return t % kWidth < kStrips; }

  // Which own[i] of which of the kWidth threads has the fold of `strip`.
  static constexpr int IndexOf(int strip) { return strip % kLeft; }
  static constexpr int ThreadOf(int strip) {
    int thread = 0, half = kStrips / 2;
    for (int mask = 1; mask < kWidth && half > 0; mask *= 2) {
      if ((strip & half) != 0) thread += mask;
      half /= 2;
    }
    return thread;
  }
};

// Blocks of 16 to 128: a warp's strip of 256 elements is 2 to 16 whole blocks, a block belongs to
// kBlock / 8 neighbouring threads, and what its scale is made of is folded by their shuffles, four
// strips at once (StripFold). x is read once.
template <size_t kIndex, DType kType, Rounding kRounding>
struct EncodeBlocksKernel {
  static constexpr BlockScheme kScheme = kBlockSchemes[kIndex];
  static constexpr int kThreads = kWarp;
  static constexpr int kMinBlocks = kRounding == Rounding::kStochastic ? 3 : 0;
  static constexpr int kBlockThreads = kScheme.block / kPerThread;
  static constexpr bool kRotated = kScheme.rotation == Rotation::kHadamard;
  static constexpr bool kAffine = kScheme.grid == Grid::kAffine;
  using Span = BlockSpan<kScheme, kType>;
  using StripsFold = StripFold<kBlockThreads, Span::kStrips>;
  static_assert(kBlockThreads <= kWarp / 2);

  BlockRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * Span::PerRow(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    if (span.whole) {
      Work<true>(team, span);
    } else {
      Work<false>(team, span);
    }
  }

  // Elements as they lie in memory or, rotated, as numbers: the fewest registers.
  using Held = std::conditional_t<kRotated, Eight, RawEight<kType>>;
  LONGHAUL_TEXT static Eight ValuesOf(const Eight& held) { return held; }
  LONGHAUL_TEXT static Eight ValuesOf(const RawEight<kType>& held) {
    Eight v;
    Widen<kType>(held, v);
    return v;
  }

  template <bool kWhole, class Team>
  LONGHAUL_TEXT void Work(Team& team, const Span& span) const {
    typename Team::template Own<Held> held[Span::kStrips];
    typename Team::template Own<BlockScale> scale[StripsFold::kLeft];
    Load<kWhole>(team, span, held);
    if constexpr (kAffine) {
      typename Team::template Own<float> low[Span::kStrips], high[Span::kStrips];
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; ++i) {
        team.Each([&](int t) {
          const int count = kWhole ? kPerThread : span.Count(i, t);
          RangeOf(held[i][t], count, low[i][t], high[i][t]);
        });
      }
      StripsFold::Fold(team, low, [](float a, float b) { return Least(a, b); });
      StripsFold::Fold(team, high, [](float a, float b) { return Largest(a, b); });
      LONGHAUL_UNROLL
      for (int i = 0; i < StripsFold::kLeft; ++i) {
        team.Each([&](int t) { scale[i][t] = ScaleOf<kScheme>(low[i][t], high[i][t]); });
      }
    } else {
      typename Team::template Own<uint32_t> top[Span::kStrips];
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; ++i) {
        team.Each([&](int t) { top[i][t] = MaxBits(held[i][t]); });
      }
      StripsFold::Fold(team, top, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
      LONGHAUL_UNROLL
      for (int i = 0; i < StripsFold::kLeft; ++i) {
        team.Each([&](int t) { scale[i][t] = ScaleOf<kScheme, kRounding>(top[i][t]); });
      }
    }
    StoreScales<kWhole>(team, span, scale);
    StoreCodes<kWhole>(team, span, held, scale);
  }

  template <bool kWhole, class Team, class Helds>
  LONGHAUL_TEXT void Load(Team& team, const Span& span, Helds& held) const {
    typename Team::template Own<RawEight<kType>> raw[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      team.Each([&](int t) {
        if constexpr (kWhole) {
          LoadEight<Team, kType>(span.X(i, t), raw[i][t]);
        } else {
          LoadSome<Team, kType>(span.X(i, t), span.Count(i, t), raw[i][t]);
        }
      });
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      if constexpr (kRotated) {
        team.Each([&](int t) { Widen<kType>(raw[i][t], held[i][t]); });
        Rotate<kWhole>(team, span, i, held[i]);
      } else {
        held[i] = raw[i];
      }
    }
  }

  template <bool kWhole, class Team, class Eights>
  LONGHAUL_TEXT void Rotate(Team& team, const Span& span, int i, Eights& v) const {
    if constexpr (kRounding == Rounding::kStochastic && kScheme.grid == Grid::kE2M1) {
      team.Each([&](int t) { FlipSigns(run.seed, span.Element(i, t), v[t]); });
    }
    Eights rotated = v;
    HadamardAcross<kScheme.block>(team, rotated);
    team.Each([&](int t) {
      if (kWhole || span.FullBlock(i, t)) v[t] = rotated[t];
    });
  }

  // Least and largest of the first `count`; the ends of the number line where there are none; NaN
  // where one is.
  LONGHAUL_TEXT static void RangeOf(const Held& held, int count, float& low, float& high) {
    if constexpr (!kRotated && kType != DType::kF32) {
      if (count == kPerThread) {
        const uint32_t* word = held.quad[0].word;
        uint32_t least = word[0], largest = word[0];
        LONGHAUL_UNROLL
        for (int w = 1; w < kPerThread / 2; ++w) {
          least = LeastPair<kType>(least, word[w]);
          largest = LargestPair<kType>(largest, word[w]);
        }
        float a, b;
        WidenPair<kType>(least, a, b);
        low = Least(a, b);
        WidenPair<kType>(largest, a, b);
        high = Largest(a, b);
        return;
      }
    }
    const Eight v = ValuesOf(held);
    low = FromBits(kInfBits);
    high = FromBits(kInfBits | 0x80000000);
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      if (e >= count) continue;
      low = Least(low, v.x[e]);
      high = Largest(high, v.x[e]);
    }
  }

  template <bool kWhole, class Team, class Scales>
  LONGHAUL_TEXT void StoreScales(Team& team, const Span& span, const Scales& scale) const {
    LONGHAUL_UNROLL
    for (int i = 0; i < StripsFold::kLeft; ++i) {
      team.Each([&](int t) {
        const int strip = StripsFold::StripOf(t, i), leader = t / kBlockThreads * kBlockThreads;
        const bool exists = kWhole || span.Count(strip, leader) > 0;
        if (StripsFold::Answers(t) && exists) {
          StoreScale<kScheme, Team>(run, span.Block(strip, t), scale[i][t]);
        }
      });
    }
  }

  template <bool kWhole, class Team, class Helds, class Scales>
  LONGHAUL_TEXT void StoreCodes(Team& team, const Span& span, const Helds& held,
                                const Scales& scale) const {
    typename Team::template Own<uint64_t> codes[Span::kStrips];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      typename Team::template Own<float> inverse, z;
      typename Team::template Own<int> source;
      team.Each([&](int t) {
        inverse[t] = scale[StripsFold::IndexOf(i)][t].inverse;
        z[t] = scale[StripsFold::IndexOf(i)][t].z;
        source[t] = t / kBlockThreads * kBlockThreads + StripsFold::ThreadOf(i);
      });
      inverse = team.From(inverse, source);
      if constexpr (kAffine) z = team.From(z, source);
      team.Each([&](int t) {
        const BlockScale b = {0, 0, BlockFault::kNone, inverse[t], z[t]};
        const int count = kWhole ? kPerThread : span.Count(i, t);
        codes[i][t] = PackEight<kScheme, kRounding>(ValuesOf(held[i][t]), count, b, run.seed,
                                                    span.Element(i, t));
      });
    }
    if constexpr (kWhole) {
      StoreFourStrips<kScheme.bits>(team, codes, span.Codes(0));
    } else {
      LONGHAUL_UNROLL
      for (int i = 0; i < Span::kStrips; ++i) {
        team.Each([&](int t) {
          StoreBytes<Team>(codes[i][t], (span.Count(i, t) * kScheme.bits + 7) / 8,
                           span.Codes(i) + t * kScheme.bits);
        });
      }
    }
  }
};

// Blocks of 4096: one team of 256 threads holds the whole block in registers, a thread twice eight
// neighbouring elements, so x is still read once.
template <size_t kIndex, DType kType, Rounding kRounding>
struct EncodeLargeBlocksKernel {
  static constexpr BlockScheme kScheme = kBlockSchemes[kIndex];
  static constexpr int kEights = 2;
  static constexpr int kThreads = kScheme.block / kPerThread / kEights;
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
    const uint64_t block = team.index(), row = Quotient(block, run.row_blocks);
    const uint64_t first = (block - row * run.row_blocks) * kScheme.block;
    const std::byte* x = run.x + (row * run.cols + first) * kElementBytes;
    std::byte* codes = run.codes + row * run.row_code_bytes + first;
    const bool whole = first + kScheme.block <= run.cols && Aligned(x, 16) && Aligned(codes, 8);
    const auto place = [](int i, int t) { return static_cast<uint64_t>(8 * (i * kThreads + t)); };

    typename Team::template Own<RawEight<kType>> raw[kEights];
    typename Team::template Own<uint32_t> top;
    LONGHAUL_UNROLL
    for (int i = 0; i < kEights; ++i) {
      team.Each([&](int t) {
        const std::byte* at = x + place(i, t) * kElementBytes;
        if (whole) {
          LoadEight<Team, kType>(at, raw[i][t]);
        } else {
          LoadSome<Team, kType>(at, CountBelow(first + place(i, t), run.cols), raw[i][t]);
        }
      });
    }
    team.Each([&](int t) {
      const uint32_t a = MaxBits(raw[0][t]), b = MaxBits(raw[1][t]);
      top[t] = a > b ? a : b;
    });
    FoldAll(team, top);

    team.Each([&](int t) {
      const BlockScale b = ScaleOf<kScheme, kRounding>(top[t]);
      LONGHAUL_UNROLL
      for (int i = 0; i < kEights; ++i) {
        Eight v;
        Widen<kType>(raw[i][t], v);
        const uint64_t at = place(i, t);
        const int count = whole ? kPerThread : CountBelow(first + at, run.cols);
        const uint64_t packed =
            PackEight<kScheme, kRounding>(v, count, b, run.seed, row * run.cols + first + at);
        if (whole) {
          Team::Store(packed, codes + at);
        } else {
          StoreBytes<Team>(packed, count, codes + at);
        }
      }
      if (t == 0) StoreScale<kScheme, Team>(run, block, b);
    });
  }

  // All threads get the largest.
  template <class Team, class Tops>
  LONGHAUL_TEXT static void FoldAll(Team& team, Tops& top) {
    const auto larger = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
    Fold<kWarp>(team, top, larger);
    typename Team::template Shared<WarpTops> shared;
    team.Phase([&](int t) {
      if (t % kWarp == 0) shared->top[t / kWarp] = top[t];
    });
    team.Phase([&](int t) { top[t] = shared->top[t % (kThreads / kWarp)]; });
    Fold<kThreads / kWarp>(team, top, larger);
  }
};

}  // namespace longhaul
