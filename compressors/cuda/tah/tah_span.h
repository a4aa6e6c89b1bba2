#pragma once

#include <cmath>

#include "compressors/cuda/block/block_arithmetic.h"
#include "compressors/cuda/tah/tah_launch.h"
#include "compressors/cuda/team/code_words.h"

namespace longhaul {

// Where a warp of either direction stands: it works on kStrips strips of 256 elements, whole tiles,
// all loads first. A thread has eight neighbouring elements of each strip.
template <int kTile, DType kType>
struct TahSpan {
  static constexpr int kStrips = 4;
  static constexpr int kTileThreads = kTile / kPerThread;
  static constexpr int kStripTiles = kWarp / kTileThreads;
  static constexpr int kTiles = kStrips * kStripTiles;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  LONGHAUL_HOST_DEVICE static uint64_t Teams(const TahRun& run) {
    return (run.rows * run.per_row + kTiles - 1) / kTiles;
  }

  LONGHAUL_TEXT TahSpan(const TahRun& run, uint64_t team) : run(run), first(team * kTiles) {
    const uint64_t left = run.rows * run.per_row - first;
    tiles = left < kTiles ? static_cast<int>(left) : kTiles;
    const std::byte* x = run.x + first * kTile * kElementBytes;
    whole = run.rows == 1 && (first + kTiles) * kTile <= run.cols && Aligned(x, 16);
  }

  // Thread t's eight elements of strip i, of a whole span.
  LONGHAUL_TEXT std::byte* X(int i, int t) const {
    return run.x + first * kTile * kElementBytes +
           static_cast<uint64_t>(i * kStrip + t * kPerThread) * kElementBytes;
  }
  // The same of any span, and how many of the eight exist.
  struct Place {
    std::byte* x;
    int count;
  };
  LONGHAUL_TEXT Place At(int i, int t) const {
    const uint64_t tile = first + static_cast<uint64_t>(TileOf(i, t));
    const uint64_t row = run.rows == 1 ? 0 : tile / run.per_row;
    const uint64_t at =
        (tile - row * run.per_row) * kTile + static_cast<uint64_t>(t % kTileThreads * kPerThread);
    return {run.x + (row * run.cols + at) * kElementBytes,
            row < run.rows ? CountBelow(at, run.cols) : 0};
  }

  // Thread t's tile in strip i, counted from `first`.
  LONGHAUL_TEXT static int TileOf(int i, int t) { return i * kStripTiles + t / kTileThreads; }
  // A tile has a place of kTile / 2 bytes for its codes, a thread one word of it in strip i.
  LONGHAUL_TEXT std::byte* Word(int i, int t) const {
    return run.codes + first * (kTile / 2) + static_cast<uint64_t>(i * kStrip / 2 + 4 * t);
  }

  const TahRun& run;
  uint64_t first;  // tile of the tensor
  int tiles;       // that exist
  bool whole;      // all elements exist and wide accesses are allowed; the same for all threads
};

// The first thread of thread t's tile, within the warp.
template <int kTileThreads>
LONGHAUL_TEXT int LeaderOf(int t) {
  return t % kWarp / kTileThreads * kTileThreads;
}

// Element 0 of each tile and its pivot change places; kTahNotRotated: they stay.
template <int kTile, class Team>
LONGHAUL_TEXT void SwapPivots(Team& team, const typename Team::template Own<uint32_t>& pivot,
                              typename Team::template Own<Eight>& v) {
  constexpr int kTileThreads = kTile / kPerThread;
  typename Team::template Own<float> first, chosen;
  typename Team::template Own<int> source, leader;
  team.Each([&](int t) {
    const int place = static_cast<int>(pivot[t]);
    first[t] = v[t].x[0];
    chosen[t] = v[t].x[0];
    LONGHAUL_UNROLL
    for (int e = 1; e < kPerThread; ++e) {
      const float x = v[t].x[e];  // read in any case: else an index that is no constant is made
      chosen[t] = place % kPerThread == e ? x : chosen[t];
    }
    leader[t] = LeaderOf<kTileThreads>(t);
    source[t] = leader[t] + (pivot[t] == kTahNotRotated ? 0 : place / kPerThread);
  });
  const auto pivot_value = team.From(chosen, source);
  const auto first_value = team.From(first, leader);
  team.Each([&](int t) {
    const int place = static_cast<int>(pivot[t]);
    const bool rotated = pivot[t] != kTahNotRotated;
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const float x = v[t].x[e];
      const bool here = place % kPerThread == e && t == source[t] && place != 0;
      v[t].x[e] = rotated && here                       ? first_value[t]
                  : rotated && e == 0 && t == leader[t] ? pivot_value[t]
                                                        : x;
    }
  });
}

template <int kTile, class Team>
LONGHAUL_TEXT void RotateTiles(Team& team, const typename Team::template Own<uint32_t>& pivot,
                               typename Team::template Own<Eight>& v) {
  auto rotated = v;
  HadamardAcross<kTile>(team, rotated);
  team.Each([&](int t) {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      v[t].x[e] = pivot[t] != kTahNotRotated ? rotated[t].x[e] : v[t].x[e];
    }
  });
}

// Whether a tile is rotated, in the whole warp.
template <class Team>
LONGHAUL_TEXT bool AnyRotated(Team& team, const typename Team::template Own<uint32_t>& pivot) {
  typename Team::template Own<bool> rotated;
  team.Each([&](int t) { rotated[t] = pivot[t] != kTahNotRotated; });
  return team.Ballot(rotated)[team.thread()] != 0;
}

}  // namespace longhaul
