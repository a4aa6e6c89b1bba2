#pragma once

#include "compressors/block_scheme.h"
#include "compressors/cuda/elements.h"
#include "compressors/cuda/lane_sum.h"
#include "compressors/cuda/tah_launch.h"
#include "compressors/cuda/team_scan.h"
#include "compressors/loops.h"

namespace longhaul {

// One warp per tile: its entropy and, if it is full, its pivot. Thread t has elements t and t + 32,
// so that the threads are the lanes of tree_sum.h.
template <int kTile, DType kType>
struct TahPlanKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kSteps = kTile / kWarp;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Lane {
    float abs[kSteps];
  };

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.per_row; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t tile = team.index(), row = tile / run.per_row;
    const uint64_t at = (tile - row * run.per_row) * kTile, left = run.cols - at;
    const int c = left < kTile ? static_cast<int>(left) : kTile;
    const std::byte* x = run.x + (row * run.cols + at) * kElementBytes;
    typename Team::template Own<Lane> v;
    typename Team::template Own<uint32_t> top;
    team.Each([&](int t) {
      top[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kSteps; ++j) {
        const int i = kWarp * j + t;
        float element = 0;
        if (i < c) element = LoadOne<Team, kType>(x + static_cast<uint64_t>(i) * kElementBytes);
        const uint32_t abs = BitsOf(element) & kAbsMask;
        v[t].abs[j] = FromBits(abs);
        top[t] = abs > top[t] ? abs : top[t];
      }
    });
    Fold<kWarp>(team, top, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
    const auto entropy = Entropy(team, v, c);
    const auto pivot = Pivot(team, v, top);
    team.Each([&](int t) {
      if (t != 0) return;
      if (top[t] >= kInfBits) {
        Team::Min(&run.report->fault, tile << 2 | static_cast<uint64_t>(BlockFault::kNotFinite));
      }
      run.entropy[tile] = BitsOf(entropy[t] < 0.0f ? 0.0f : entropy[t]);
      Team::Store(static_cast<uint8_t>(c == kTile ? pivot[t] : kTahNotRotated), run.pivots + tile);
    });
  }

  // LoopEntropy.
  template <class Team, class Lanes>
  LONGHAUL_TEXT static typename Team::template Own<float> Entropy(Team& team, const Lanes& v,
                                                                  int c) {
    typename Team::template Own<float> total, sum;
    team.Each([&](int t) {
      total[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kSteps; ++j) total[t] += v[t].abs[j];
    });
    SumLanes(team, total);
    team.Each([&](int t) {
      sum[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kSteps; ++j) {
        if (kWarp * j + t < c) sum[t] += PLog2P(v[t].abs[j] / (total[t] + 1e-30f));
      }
    });
    SumLanes(team, sum);
    team.Each([&](int t) { sum[t] = -sum[t]; });
    return sum;
  }

  // The place of the first largest |x| where it is twice the second, else kTahNotRotated.
  template <class Team, class Lanes, class Bits>
  LONGHAUL_TEXT static Bits Pivot(Team& team, const Lanes& v, const Bits& top) {
    Bits place, second;
    team.Each([&](int t) {
      place[t] = kTile;
      for (int j = kSteps - 1; j >= 0; --j) {
        if (BitsOf(v[t].abs[j]) == top[t]) place[t] = static_cast<uint32_t>(kWarp * j + t);
      }
    });
    Fold<kWarp>(team, place, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
    team.Each([&](int t) {
      second[t] = 0;
      LONGHAUL_UNROLL
      for (int j = 0; j < kSteps; ++j) {
        const uint32_t bits = BitsOf(v[t].abs[j]);
        const bool other = static_cast<uint32_t>(kWarp * j + t) != place[t];
        second[t] = other && bits > second[t] ? bits : second[t];
      }
    });
    Fold<kWarp>(team, second, [](uint32_t a, uint32_t b) { return a > b ? a : b; });
    team.Each([&](int t) {
      const bool rotates = top[t] > 0 && FromBits(top[t]) * 0.5f >= FromBits(second[t]);
      if (!rotates) place[t] = kTahNotRotated;
    });
    return place;
  }
};

// One team per row: the tiles with the largest entropy get four bits, the lower tile first among
// equals. The threshold is found bit by bit, as in top_k_kernel.h.
struct TahWidthKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarp;

  TahRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint32_t* keys = run.entropy + team.index() * run.per_row;
    std::byte* wide = run.wide + team.index() * run.per_row;
    uint32_t threshold = 0;  // the largest that enough keys reach
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
      const uint32_t least = threshold | bit;
      const uint64_t count = CountAll(team, keys, [least](uint32_t key) { return key >= least; });
      if (count >= run.wide_per_row) threshold = least;
    }
    const uint64_t above =
        CountAll(team, keys, [threshold](uint32_t key) { return key > threshold; });
    const uint64_t equal_kept = run.wide_per_row - above;
    uint64_t equal_seen = 0;
    for (uint64_t first = 0; first < run.per_row; first += kThreads) {
      const auto key_of = [&](int t) { return keys[first + static_cast<uint64_t>(t)]; };
      const auto exists = [&](int t) { return first + static_cast<uint64_t>(t) < run.per_row; };
      typename Team::template Own<uint32_t> equal, before;
      team.Each([&](int t) { equal[t] = exists(t) && key_of(t) == threshold ? 1 : 0; });
      const uint32_t found = SumsBefore<uint32_t, kWarps>(team, equal, before);
      team.Each([&](int t) {
        if (!exists(t)) return;
        const bool kept =
            key_of(t) > threshold || (equal[t] != 0 && equal_seen + before[t] < equal_kept);
        Team::Store(static_cast<uint8_t>(kept), wide + first + t);
      });
      equal_seen += found;
    }
  }

  template <class Team, class Test>
  LONGHAUL_TEXT uint64_t CountAll(Team& team, const uint32_t* keys, Test test) const {
    typename Team::template Own<uint32_t> count;
    team.Each([&](int t) {
      count[t] = 0;
      for (uint64_t i = static_cast<uint64_t>(t); i < run.per_row; i += kThreads) {
        count[t] += test(keys[i]) ? 1 : 0;
      }
    });
    typename Team::template Own<uint32_t> before;
    return SumsBefore<uint32_t, kWarps>(team, count, before);
  }
};

}  // namespace longhaul
