#pragma once

#include <bit>

#include "compressors/cuda/tah/tah_launch.h"
#include "compressors/cuda/team/team_scan.h"

namespace longhaul {

// One team per row: the tiles with the largest entropy get four bits, the lower tile first among
// equals. The threshold is found bit by bit, as in top_k_kernel.h, over keys in registers; of a row
// longer than kThreads kHeld tiles, the rest is read from memory for every bit.
template <int kTeam, int kHeld>
struct TahWidthKernel {
  static constexpr int kThreads = kTeam;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr uint64_t kHeldByAll = uint64_t{kThreads} * kHeld;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows; }

  // Keys t, t + kThreads, ... of the row; 0, which is never counted, where there is none.
  struct Keys {
    uint32_t key[kHeld];
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint32_t* keys = run.entropy + team.index() * run.per_row;
    typename Team::template Own<Keys> held;
    team.Each([&](int t) {
      LONGHAUL_UNROLL
      for (int j = 0; j < kHeld; ++j) {
        const auto i = static_cast<uint64_t>(kThreads * j + t);
        held[t].key[j] = i < run.per_row ? keys[i] : 0;
      }
    });
    uint32_t bit = 1u << 31;
    if constexpr (kThreads == kWarp) bit = HighestThatDiffers(team, keys, held);
    // The largest that enough keys reach; above the first bit all are alike.
    uint32_t threshold = bit == 0 ? keys[0] : keys[0] & ~(2 * bit - 1);
    bool exact = run.per_row == run.wide_per_row;
    for (; bit != 0 && !exact; bit >>= 1) {
      const uint32_t least = threshold | bit;
      const uint64_t count =
          CountAll(team, keys, held, [least](uint32_t key) { return key >= least; });
      if (count >= run.wide_per_row) threshold = least;
      exact = count == run.wide_per_row;
    }
    uint64_t equal_kept = run.per_row;
    if (!exact) {
      equal_kept = run.wide_per_row - CountAll(team, keys, held, [threshold](uint32_t key) {
                     return key > threshold;
                   });
    }
    StoreWidths(team, keys, threshold, equal_kept);
  }

  template <class Team>
  LONGHAUL_TEXT void StoreWidths(Team& team, const uint32_t* keys, uint32_t threshold,
                                 uint64_t equal_kept) const {
    std::byte* wide = run.wide + team.index() * run.per_row;
    uint64_t equal_seen = 0;
    for (uint64_t first = 0; first < run.per_row; first += kThreads) {
      typename Team::template Own<uint32_t> key, equal, before;
      typename Team::template Own<bool> exists;
      team.Each([&](int t) {
        const uint64_t i = first + static_cast<uint64_t>(t);
        exists[t] = i < run.per_row;
        key[t] = exists[t] ? keys[i] : 0;
        equal[t] = exists[t] && key[t] == threshold ? 1 : 0;
      });
      const uint64_t found = Before(team, equal, before);
      team.Each([&](int t) {
        if (!exists[t]) return;
        const bool kept =
            key[t] > threshold || (equal[t] != 0 && equal_seen + before[t] < equal_kept);
        Team::Store(static_cast<uint8_t>(kept), wide + first + static_cast<uint64_t>(t));
      });
      equal_seen += found;
    }
  }

  // 0: none does. For rows that are held.
  template <class Team, class Held>
  LONGHAUL_TEXT uint32_t HighestThatDiffers(Team& team, const uint32_t* keys,
                                            const Held& held) const {
    typename Team::template Own<uint32_t> differ;
    team.Each([&](int t) {
      differ[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kHeld; ++j) {
        const bool exists = static_cast<uint64_t>(kThreads * j + t) < run.per_row;
        if (exists) differ[t] |= held[t].key[j] ^ keys[0];
      }
    });
    Fold<kWarp>(team, differ, [](uint32_t a, uint32_t b) { return a | b; });
    return std::bit_floor(differ[team.thread()]);
  }

  template <class Team, class Held, class Test>
  LONGHAUL_TEXT uint64_t CountAll(Team& team, const uint32_t* keys, const Held& held,
                                  Test test) const {
    typename Team::template Own<uint32_t> count, before;
    team.Each([&](int t) {
      count[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kHeld; ++j) count[t] += test(held[t].key[j]) ? 1 : 0;
      for (uint64_t i = kHeldByAll + static_cast<uint64_t>(t); i < run.per_row; i += kThreads) {
        count[t] += test(keys[i]) ? 1 : 0;
      }
    });
    if constexpr (kThreads == kWarp) {
      Fold<kWarp>(team, count, [](uint32_t a, uint32_t b) { return a + b; });
      return count[team.thread()];
    } else {
      return SumsBefore<uint32_t, kWarps>(team, count, before);
    }
  }

  // own is 0 or 1; before[t]: how many are 1 before thread t's. Answers how many in all.
  template <class Team, class Bits>
  LONGHAUL_TEXT static uint64_t Before(Team& team, const Bits& own, Bits& before) {
    if constexpr (kThreads == kWarp) {
      typename Team::template Own<bool> set;
      team.Each([&](int t) { set[t] = own[t] != 0; });
      const auto all = team.Ballot(set);
      team.Each([&](int t) { before[t] = CountBits(all[t] & ((1u << t) - 1)); });
      return CountBits(all[team.thread()]);
    } else {
      return SumsBefore<uint32_t, kWarps>(team, own, before);
    }
  }
  LONGHAUL_TEXT static uint32_t CountBits(uint32_t word) {
    return static_cast<uint32_t>(std::popcount(word));
  }
};

}  // namespace longhaul
