#pragma once

#include "compressors/cuda/tah/tah_entropy.h"
#include "compressors/cuda/tah/tah_launch.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {

// The entropy of each tile and, if it is full, its pivot. A thread has sixteen elements of a tile,
// four times four neighbours, so that 2 or 4 threads have the tile and half of the additions of
// tree_sum.h are within a thread: thread k of K has elements 4 (K j + k) + e, j and e from 0 to 3.
template <int kTile, DType kType>
struct TahPlanKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kMinBlocks = 3;
  static constexpr int kChunks = 4, kChunk = 4;
  static constexpr int kTileThreads = kTile / (kChunks * kChunk);
  static constexpr int kTiles = kWarp / kTileThreads;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const {
    return (run.rows * run.per_row + kTiles - 1) / kTiles;
  }

  struct Sixteen {
    float x[kChunks][kChunk];
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t first = team.index() * kTiles;
    const bool whole = run.rows == 1 && (first + kTiles) * kTile <= run.cols &&
                       Aligned(run.x, kChunk * kElementBytes);
    typename Team::template Own<Sixteen> v;
    typename Team::template Own<int> count;  // elements of the tile; 0: there is no such tile
    team.Each([&](int t) { count[t] = Load<Team>(first, whole, t, v[t]); });
    StorePivots(team, first, count, v);

    const auto total = Sum(team, v, [](float x) { return fabsf(x); });
    team.Each([&](int t) {
      // NaN and Inf are in the total, but they are not alone in making it infinite.
      if ((BitsOf(total[t]) & kAbsMask) >= kInfBits) ReportNotFinite<Team>(TileOf(first, t), v[t]);
      const ShareScale by = ScaleOfShares<Team>(total[t]);
      LONGHAUL_UNROLL
      for (int i = 0; i < kChunks * kChunk; ++i) {
        float& x = v[t].x[i / kChunk][i % kChunk];
        x = ShareLog2<Team>(ShareOf(fabsf(x), by));
      }
    });
    const auto sum = Sum(team, v, [](float x) { return x; });
    team.Each([&](int t) {
      if (t % kTileThreads != 0 || count[t] == 0) return;
      const float entropy = -(sum[t] + 0.0f);  // the sum of -0 alone is 0
      run.entropy[TileOf(first, t)] = BitsOf(entropy < 0.0f ? 0.0f : entropy);
    });
  }

  LONGHAUL_TEXT static uint64_t TileOf(uint64_t first, int t) {
    return first + static_cast<uint64_t>(t / kTileThreads);
  }
  // The number of element e of chunk j within the tile.
  LONGHAUL_TEXT static int ElementOf(int j, int e, int t) {
    return kChunk * (kTileThreads * j + t % kTileThreads) + e;
  }

  // Thread t's elements, 0 where there are none; answers how many its tile has.
  template <class Team>
  LONGHAUL_TEXT int Load(uint64_t first, bool whole, int t, Sixteen& v) const {
    RawEight<kType> raw[kChunks / 2];
    int count = kTile;
    if (whole) {
      const std::byte* x = run.x + first * kTile * kElementBytes +
                           static_cast<uint64_t>(t / kTileThreads * kTile) * kElementBytes;
      LONGHAUL_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        LoadFour<Team>(x + static_cast<uint64_t>(ElementOf(j, 0, t)) * kElementBytes, raw[j / 2],
                       j % 2);
      }
    } else {
      const uint64_t tile = TileOf(first, t), row = run.rows == 1 ? 0 : tile / run.per_row;
      const uint64_t at = (tile - row * run.per_row) * kTile;
      const std::byte* x = run.x + (row * run.cols + at) * kElementBytes;
      const uint64_t left = row < run.rows && at < run.cols ? run.cols - at : 0;
      count = left < kTile ? static_cast<int>(left) : kTile;
      LONGHAUL_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        const int e = ElementOf(j, 0, t);
        LoadSomeOfFour<Team>(x + static_cast<uint64_t>(e) * kElementBytes, count - e, raw[j / 2],
                             j % 2);
      }
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < kChunks; ++j) {
      Eight pair;
      Widen<kType>(raw[j / 2], pair);
      LONGHAUL_UNROLL
      for (int e = 0; e < kChunk; ++e) v.x[j][e] = pair.x[j % 2 * kChunk + e];
    }
    return count;
  }

  // Four elements into one half of eight.
  template <class Team>
  LONGHAUL_TEXT static void LoadFour(const std::byte* p, RawEight<kType>& raw, int half) {
    if constexpr (kType == DType::kF32) {
      raw.quad[half] = Team::Load16(p);
    } else {
      const auto four = Team::template Load<uint64_t>(p);
      raw.quad[0].word[2 * half] = static_cast<uint32_t>(four);
      raw.quad[0].word[2 * half + 1] = static_cast<uint32_t>(four >> 32);
    }
  }
  // `count`: how many of the four exist, if not negative and not more.
  template <class Team>
  LONGHAUL_TEXT static void LoadSomeOfFour(const std::byte* p, int count, RawEight<kType>& raw,
                                           int half) {
    RawEight<kType> some;
    LoadSome<Team, kType>(p, count < kChunk ? count : kChunk, some);
    if constexpr (kType == DType::kF32) {
      raw.quad[half] = some.quad[0];
    } else {
      raw.quad[0].word[2 * half] = some.quad[0].word[0];
      raw.quad[0].word[2 * half + 1] = some.quad[0].word[1];
    }
  }

  // The sum of a tile's terms in the order of tree_sum.h, to all of its threads. Whenever two
  // threads would add the same pairs, each adds one half of them.
  template <class Team, class Term>
  LONGHAUL_TEXT static typename Team::template Own<float> Sum(
      Team& team, const typename Team::template Own<Sixteen>& v, Term term) {
    struct Two {
      float x[2];
    };
    typename Team::template Own<Two> mine, yours;  // of four sums: e odd or even
    constexpr int kFar = kTileThreads / 2;
    team.Each([&](int t) {
      float four[kChunk];
      LONGHAUL_UNROLL
      for (int e = 0; e < kChunk; ++e) {
        four[e] =
            (term(v[t].x[0][e]) + term(v[t].x[2][e])) + (term(v[t].x[1][e]) + term(v[t].x[3][e]));
      }
      const bool odd = (t & kFar) != 0;
      mine[t] = {{odd ? four[1] : four[0], odd ? four[3] : four[2]}};
      yours[t] = {{odd ? four[0] : four[1], odd ? four[2] : four[3]}};
    });
    const auto far = team.Xor(yours, kFar);
    typename Team::template Own<float> sum, other;
    team.Each([&](int t) {
      mine[t].x[0] += far[t].x[0];
      mine[t].x[1] += far[t].x[1];
      if constexpr (kTileThreads == 2) sum[t] = mine[t].x[0] + mine[t].x[1];
    });
    if constexpr (kTileThreads == 4) {
      team.Each([&](int t) {
        sum[t] = (t & 1) != 0 ? mine[t].x[1] : mine[t].x[0];
        other[t] = (t & 1) != 0 ? mine[t].x[0] : mine[t].x[1];
      });
      other = team.Xor(other, 1);
      team.Each([&](int t) { sum[t] += other[t]; });
      other = team.Xor(sum, 1);
      team.Each([&](int t) { sum[t] += other[t]; });
    }
    other = team.Xor(sum, kFar);
    team.Each([&](int t) { sum[t] += other[t]; });
    return sum;
  }

  // A full tile is rotated where its largest |x| is twice its second, that is where it is the only
  // one above its half. So a thread looks for the second only where it alone has any above.
  template <class Team>
  LONGHAUL_TEXT void StorePivots(Team& team, uint64_t first,
                                 const typename Team::template Own<int>& count,
                                 const typename Team::template Own<Sixteen>& v) const {
    typename Team::template Own<float> mine, top;
    typename Team::template Own<uint32_t> above, threads;
    team.Each([&](int t) {
      mine[t] = 0;
      LONGHAUL_UNROLL
      for (int i = 0; i < kChunks * kChunk; ++i) {
        mine[t] = fmaxf(mine[t], fabsf(v[t].x[i / kChunk][i % kChunk]));
      }
      top[t] = mine[t];
    });
    Fold<kTileThreads>(team, top, [](float a, float b) { return fmaxf(a, b); });
    team.Each([&](int t) { above[t] = threads[t] = mine[t] > top[t] * 0.5f ? 1 : 0; });
    Fold<kTileThreads>(team, threads, [](uint32_t a, uint32_t b) { return a + b; });
    team.Each([&](int t) {
      const bool alone = count[t] == kTile && threads[t] == 1;
      if (!(alone ? above[t] == 1 : t % kTileThreads == 0 && count[t] > 0)) return;
      const int pivot = alone ? PivotOf(v[t], top[t], t) : kTahNotRotated;
      Team::Store(static_cast<uint8_t>(pivot), run.pivots + TileOf(first, t));
    });
  }

  LONGHAUL_TEXT static int PivotOf(const Sixteen& v, float top, int t) {
    int pivot = kTahNotRotated, above = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < kChunks * kChunk; ++i) {
      const bool here = fabsf(v.x[i / kChunk][i % kChunk]) > top * 0.5f;
      above += here ? 1 : 0;
      pivot = here ? ElementOf(i / kChunk, i % kChunk, t) : pivot;
    }
    return above == 1 ? pivot : kTahNotRotated;
  }

  template <class Team>
  LONGHAUL_TEXT void ReportNotFinite(uint64_t tile, const Sixteen& v) const {
    bool bad = false;
    LONGHAUL_UNROLL
    for (int i = 0; i < kChunks * kChunk; ++i) {
      bad |= (BitsOf(v.x[i / kChunk][i % kChunk]) & kAbsMask) >= kInfBits;
    }
    if (bad) {
      Team::Min(&run.report->fault, tile << 2 | static_cast<uint64_t>(BlockFault::kNotFinite));
    }
  }
};

}  // namespace longhaul
