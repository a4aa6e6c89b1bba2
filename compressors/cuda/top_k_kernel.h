#pragma once

#include "compressors/cuda/elements.h"
#include "compressors/cuda/selection_launch.h"
#include "compressors/cuda/team_scan.h"

namespace longhaul {

// Where a chunk lies, and its kept elements among all.
struct ChunkPlace {
  LONGHAUL_TEXT ChunkPlace(const SelectionRun& run, uint64_t number) {
    const uint64_t row = number / run.row_chunks, in_row = number - row * run.row_chunks;
    first = row * run.cols + in_row * run.chunk;
    const uint64_t left = run.cols - in_row * run.chunk;
    length = left < run.chunk ? static_cast<uint32_t>(left) : run.chunk;
    kept = left < run.chunk ? run.tail_kept : run.kept;
    kept_at = row * run.row_kept + in_row * run.kept;
  }
  uint64_t first, kept_at;
  uint32_t length, kept;
};

// The k largest |x| of a chunk, the lowest index first among equals: one team of 512 threads per
// chunk, eight neighbouring elements per thread and tile of 4096. The k-th largest magnitude is
// found bit by bit from the top, as an integer, with one count over the chunk per bit and none
// after the count is exactly k; then a scan over the threads gives every kept element its place.
// Chunks of one tile stay in registers; others are read again for every bit (from L2).
template <DType kType>
struct TopKKernel {
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr uint32_t kTile = kThreads * kPerThread;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Keys {
    uint32_t key[kPerThread];  // |x| as bits, plus one; 0 = no element
  };
  struct Counts {
    uint32_t warp[kWarps];
  };

  SelectionRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.row_chunks; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const ChunkPlace place(run, team.index());
    const uint32_t tiles = (place.length + kTile - 1) / kTile;
    typename Team::template Own<Keys> keys;
    Load(team, place, 0, keys);
    // The largest threshold that at least k keys reach.
    uint32_t threshold = 0, reached = place.length;
    for (uint32_t bit = 1u << 30; bit != 0 && reached != place.kept; bit >>= 1) {
      uint32_t count = 0;
      for (uint32_t tile = 0; tile < tiles; ++tile) {
        if (tiles > 1) Load(team, place, tile, keys);
        count += Count(team, keys, threshold | bit);
      }
      if (count < place.kept) continue;
      threshold |= bit;
      reached = count;
    }
    uint32_t above = reached;
    if (reached != place.kept) {  // ties at the threshold: not all of them are kept
      above = 0;
      for (uint32_t tile = 0; tile < tiles; ++tile) {
        if (tiles > 1) Load(team, place, tile, keys);
        above += Count(team, keys, threshold + 1);
      }
    } else {
      threshold -= threshold != 0;  // what is above is kept, and nothing equal
    }
    Write(team, place, tiles, threshold, place.kept - above, keys);
  }

  template <class Team, class Own>
  LONGHAUL_TEXT void Load(Team& team, const ChunkPlace& place, uint32_t tile, Own& keys) const {
    const std::byte* x = run.x + place.first * kElementBytes;
    const bool aligned = Aligned(x, 16);
    team.Each([&](int t) {
      const uint64_t at = uint64_t{tile} * kTile + static_cast<uint64_t>(t * kPerThread);
      const int count = CountBelow(at, place.length);
      RawEight<kType> raw;
      if (aligned && count == kPerThread) {
        LoadEight<Team, kType>(x + at * kElementBytes, raw);
      } else {
        LoadSome<Team, kType>(x + at * kElementBytes, count, raw);
      }
      Eight v;
      Widen<kType>(raw, v);
      bool bad = false;
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        const uint32_t abs = BitsOf(v.x[e]) & kAbsMask;
        bad |= abs >= kInfBits;
        keys[t].key[e] = e < count ? abs + 1 : 0;
      }
      if (bad) Team::Min(&run.report->fault, 0);
    });
  }

  // How many keys are at least `least`, which is not 0.
  template <class Team, class Own>
  LONGHAUL_TEXT static uint32_t Count(Team& team, const Own& keys, uint32_t least) {
    typename Team::template Own<uint32_t> count;
    team.Each([&](int t) {
      count[t] = 0;
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) count[t] += keys[t].key[e] >= least ? 1u : 0u;
    });
    Fold<kWarp>(team, count, [](uint32_t a, uint32_t b) { return a + b; });
    typename Team::template Shared<Counts> counts;
    team.Phase([&](int t) {
      if (t % kWarp == 0) counts->warp[t / kWarp] = count[t];
    });
    team.Phase([&](int t) {
      count[t] = 0;
      LONGHAUL_UNROLL
      for (int w = 0; w < kWarps; ++w) count[t] += counts->warp[w];
    });
    return count[team.thread()];
  }

  // Keeps the keys above the threshold and the first `equal_kept` of those equal to it.
  template <class Team, class Own>
  LONGHAUL_TEXT void Write(Team& team, const ChunkPlace& place, uint32_t tiles, uint32_t threshold,
                           uint32_t equal_kept, Own& keys) const {
    uint64_t base = 0;  // above << 32 | equal, of earlier tiles
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      if (tiles > 1) Load(team, place, tile, keys);
      typename Team::template Own<uint64_t> found, before;
      team.Each([&](int t) {
        found[t] = 0;
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) {
          const uint32_t key = keys[t].key[e];
          if (key > threshold) found[t] += uint64_t{1} << 32;
          if (key == threshold) found[t] += 1;
        }
      });
      const uint64_t total = SumsBefore<uint64_t, kWarps>(team, found, before);
      team.Each([&](int t) {
        uint64_t seen = base + before[t];
        for (int e = 0; e < kPerThread; ++e) {
          const uint32_t key = keys[t].key[e];
          const auto above = static_cast<uint32_t>(seen >> 32), equal = static_cast<uint32_t>(seen);
          if (key < threshold || key == 0) continue;
          seen += key > threshold ? uint64_t{1} << 32 : 1;
          if (key == threshold && equal >= equal_kept) continue;
          const uint32_t index = tile * kTile + static_cast<uint32_t>(t * kPerThread + e);
          const uint64_t at = place.kept_at + above + (equal < equal_kept ? equal : equal_kept);
          run.indices[at] = static_cast<uint16_t>(index);
          run.values[at] = LoadOne<Team, kType>(run.x + (place.first + index) * kElementBytes);
        }
      });
      base += total;
    }
  }
};

}  // namespace longhaul
