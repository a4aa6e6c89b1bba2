#pragma once

#include "compressors/cuda/selection/selection_keys.h"
#include "compressors/cuda/team/team.h"

namespace longhaul {

template <typename T, int kWarps>
struct WarpTotals {
  T warp[kWarps];
};

// before[t]: the sum of own[0 .. t - 1] of the threads of kWarps warps; answers the sum of all.
template <typename T, int kWarps, class Team, class Own>
LONGHAUL_TEXT T SumsBefore(Team& team, const Own& own, Own& before) {
  typename Team::template Own<int> source;
  auto sum = own;
  LONGHAUL_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    team.Each([&](int t) { source[t] = t % kWarp >= step ? t % kWarp - step : 0; });
    auto lower = team.From(sum, source);
    team.Each([&](int t) { sum[t] += t % kWarp >= step ? lower[t] : 0; });
  }
  if constexpr (kWarps == 1) {
    team.Each([&](int t) {
      before[t] = sum[t] - own[t];
      source[t] = kWarp - 1;
    });
    return team.From(sum, source)[team.thread()];
  }
  typename Team::template Shared<WarpTotals<T, kWarps>> totals;
  team.Phase([&](int t) {
    if (t % kWarp == kWarp - 1) totals->warp[t / kWarp] = sum[t];
  });
  Own all;
  team.Phase([&](int t) {
    before[t] = sum[t] - own[t];
    all[t] = 0;
    LONGHAUL_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      if (w < t / kWarp) before[t] += totals->warp[w];
      all[t] += totals->warp[w];
    }
  });
  return all[team.thread()];
}

// The k largest |x| of a chunk for any k, the lowest index first among equals: one team per chunk,
// four times eight neighbouring elements per thread and tile. The k-th largest magnitude is found
// by halving, with one count over the chunk per bit that the dtype has and none after the count is
// exactly k; then a scan over the threads gives every kept element its place. Chunks of one tile
// stay in registers; others are read again for every count (from L2).
template <DType kType, int kTeamThreads>
struct TopKKernel {
  static constexpr int kThreads = kTeamThreads;
  static constexpr int kMinBlocks = kThreads == kWarp ? 2 : 5;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kLayers = 4;  // a thread has eight elements of each
  static constexpr uint32_t kLayer = kThreads * kPerThread;
  static constexpr uint32_t kTile = kLayers * kLayer;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Keys {
    uint32_t key[kLayers][kPerThread];
  };
  // A count for every layer, 16 bits each.
  static_assert(kLayers * 16 == 64 && kLayer < 1 << 16);
  LONGHAUL_TEXT static uint32_t CountOf(uint64_t counts, int layer) {
    return static_cast<uint32_t>(counts >> (16 * layer)) & 0xFFFF;
  }

  SelectionRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.row_chunks; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const ChunkPlace place(run, team.index());
    const uint32_t tiles = (place.length + kTile - 1) / kTile;
    typename Team::template Own<Keys> keys;
    Load(team, place, 0, keys);
    Search search = {1, place.length, kInfMagnitude<kType>, 0};
    search.Narrow(place.kept, place.kept, [&](uint32_t magnitude) {
      typename Team::template Own<uint32_t> count;
      team.Each([&](int t) { count[t] = 0; });
      for (uint32_t tile = 0; tile < tiles; ++tile) {
        if (tiles > 1) Load(team, place, tile, keys);
        team.Each([&](int t) { count[t] += Reaching(keys[t], magnitude); });
      }
      return team.Total(count);
    });
    Write(team, place, tiles, search.Exactly(place.kept), keys);
  }

  template <class Team, class Own>
  LONGHAUL_TEXT void Load(Team& team, const ChunkPlace& place, uint32_t tile, Own& keys) const {
    if (place.length - tile * kTile >= kTile && Aligned(run.x + place.first * kElementBytes, 16)) {
      LoadTile<true>(team, place, tile, keys);
    } else {
      LoadTile<false>(team, place, tile, keys);
    }
  }

  template <bool kWhole, class Team, class Own>
  LONGHAUL_TEXT void LoadTile(Team& team, const ChunkPlace& place, uint32_t tile, Own& keys) const {
    const std::byte* x = run.x + place.first * kElementBytes;
    team.Each([&](int t) {
      RawEight<kType> raw[kLayers];
      LONGHAUL_UNROLL
      for (int i = 0; i < kLayers; ++i) {
        const uint32_t at = IndexOf(tile, i, t);
        const std::byte* p = x + at * kElementBytes;
        const int count = CountBelow(at, place.length);
        if (kWhole || (count == kPerThread && Aligned(p, 16))) {
          LoadEight<Team, kType>(p, raw[i]);
        } else {
          LoadSome<Team, kType>(p, count, raw[i]);
        }
      }
      uint32_t top = 0;
      LONGHAUL_UNROLL
      for (int i = 0; i < kLayers; ++i) {
        const int count = kWhole ? kPerThread : CountBelow(IndexOf(tile, i, t), place.length);
        const uint32_t here = LargestMagnitude<kType>(raw[i]);
        top = here > top ? here : top;
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) {
          keys[t].key[i][e] = e < count ? KeyOf<kType>(BitsAt<kType>(raw[i], e)) : 0;
        }
      }
      if (top >= kInfMagnitude<kType>) Team::Min(&run.report->fault, 0);
    });
  }

  LONGHAUL_TEXT static uint32_t IndexOf(uint32_t tile, int layer, int t) {
    return tile * kTile + static_cast<uint32_t>(layer) * kLayer +
           static_cast<uint32_t>(t * kPerThread);
  }

  LONGHAUL_TEXT static uint32_t Reaching(const Keys& keys, uint32_t magnitude) {
    const uint32_t least = magnitude << 1;
    uint32_t count = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < kLayers; ++i) {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        if constexpr (kType == DType::kF32) {  // the carry
          count += static_cast<uint32_t>((uint64_t{keys.key[i][e]} + (0 - least)) >> 32);
        } else {  // small numbers: the sign
          count += (least - 1 - keys.key[i][e]) >> 31;
        }
      }
    }
    return count;
  }

  // Bit 8 i + e: element e of layer i. Keys from `least` to `most`.
  LONGHAUL_TEXT static uint32_t Between(const Keys& keys, uint32_t least, uint32_t most) {
    uint32_t bits = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < kLayers; ++i) {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        bits |= keys.key[i][e] - least <= most - least ? 1u << (kPerThread * i + e) : 0u;
      }
    }
    return bits;
  }
  LONGHAUL_TEXT static uint32_t OfLayer(uint32_t bits, int layer) {
    return (bits >> (kPerThread * layer)) & 0xFF;
  }

  template <class Team>
  LONGHAUL_TEXT static uint64_t CountLayers(uint32_t bits) {
    uint64_t counts = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < kLayers; ++i) {
      counts |= uint64_t{Team::BitCount(OfLayer(bits, i))} << (16 * i);
    }
    return counts;
  }

  template <class Team, class Own>
  LONGHAUL_TEXT void Write(Team& team, const ChunkPlace& place, uint32_t tiles, Threshold threshold,
                           Own& keys) const {
    const uint32_t least = threshold.magnitude << 1;
    uint32_t above_before = 0, equal_before = 0;  // of earlier layers
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      if (tiles > 1) Load(team, place, tile, keys);
      typename Team::template Own<uint32_t> above, equal;
      typename Team::template Own<uint64_t> counts, above_lower, equal_lower;
      team.Each([&](int t) {
        above[t] = Between(keys[t], least + 2, UINT32_MAX);
        equal[t] = threshold.equal == 0 ? 0 : Between(keys[t], least, least + 1);
        counts[t] = CountLayers<Team>(above[t]);
      });
      const uint64_t all_above = SumsBefore<uint64_t, kWarps>(team, counts, above_lower);
      uint64_t all_equal = 0;
      if (threshold.equal != 0) {
        team.Each([&](int t) { counts[t] = CountLayers<Team>(equal[t]); });
        all_equal = SumsBefore<uint64_t, kWarps>(team, counts, equal_lower);
      }
      LONGHAUL_UNROLL
      for (int i = 0; i < kLayers; ++i) {
        team.Each([&](int t) {
          WriteEight<Team>(place, IndexOf(tile, i, t), keys[t].key[i], OfLayer(above[t], i),
                           OfLayer(equal[t], i), above_before + CountOf(above_lower[t], i),
                           equal_before + CountOf(equal_lower[t], i), threshold.equal);
        });
        above_before += CountOf(all_above, i);
        equal_before += CountOf(all_equal, i);
      }
    }
  }

  // above, equal: which of the eight are; *_before: how many of the chunk come before these.
  template <class Team>
  LONGHAUL_TEXT void WriteEight(const ChunkPlace& place, uint32_t index,
                                const uint32_t (&keys)[kPerThread], uint32_t above, uint32_t equal,
                                uint32_t above_before, uint32_t equal_before,
                                uint32_t equal_kept) const {
    if ((above | equal) == 0) return;
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const uint32_t bit = 1u << e;
      if (((above | equal) & bit) == 0) continue;
      const uint32_t equals = equal_before + Team::BitCount(equal & (bit - 1));
      const uint32_t at = above_before + Team::BitCount(above & (bit - 1)) +
                          (equals < equal_kept ? equals : equal_kept);
      // What NaN and Inf are among may have more than k: it is refused, but it must stay inside.
      if (((equal & bit) != 0 && equals >= equal_kept) || at >= place.kept) continue;
      run.indices[place.kept_at + at] = static_cast<uint16_t>(index + static_cast<uint32_t>(e));
      run.values[place.kept_at + at] = ValueOf<kType>(keys[e]);
    }
  }
};

}  // namespace longhaul
