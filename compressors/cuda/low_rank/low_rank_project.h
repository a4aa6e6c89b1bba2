#pragma once

#include "compressors/cuda/low_rank/low_rank_launch.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {

// P = scale M Q. A warp has four rows of M, a thread a lane of tree_sum.h of each: so no width and
// no address is special, and what a thread loads of Q serves four rows. M is read once per four
// factors, Q from the caches.
//
// What does not exist counts as 0 times 0: no sum that began with +0 changes when +0 is added.
struct ProjectKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kResidentThreads = 512;  // 128 registers: 32 loads of M in flight
  static constexpr int kRows = 4;
  // Steps of 32 elements of each row, loaded before the first use.
  static constexpr int kAtOnce = 8;
  static constexpr uint64_t kBatch = kAtOnce * kSumLanes;

  struct Steps {
    float m[kAtOnce][kRows];
  };
  template <int kFactors>
  struct Sums {
    float sum[kRows][kFactors];
  };

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.rows + kRows - 1) / kRows; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    uint32_t first = 0;
    for (; first + 4 <= run.rank; first += 4) Factors<4>(team, first);
    if (first + 3 == run.rank) Factors<3>(team, first);
    if (first + 2 == run.rank) Factors<2>(team, first);
    if (first + 1 == run.rank) Factors<1>(team, first);
  }

  // Thread t keeps the total of row t / kFactors and factor t % kFactors.
  template <int kFactors, class Team>
  LONGHAUL_TEXT void Factors(Team& team, uint32_t first) const {
    typename Team::template Own<double> total;
    team.Each([&](int t) { total[t] = 0; });
    for (uint64_t at = 0; at < run.cols; at += kSumChunk) {
      typename Team::template Own<Sums<kFactors>> sums;
      Chunk<kFactors>(team, first, at, sums);
      team.Each([&](int t) {
        float own = 0;
        LONGHAUL_UNROLL
        for (int i = 0; i < kRows * kFactors; ++i) {
          own = i == t ? sums[t].sum[i / kFactors][i % kFactors] : own;
        }
        total[t] += static_cast<double>(own);
      });
    }
    team.Each([&](int t) {
      const uint64_t row = team.index() * kRows + static_cast<uint64_t>(t / kFactors);
      const uint32_t factor = first + static_cast<uint32_t>(t % kFactors);
      if (t >= kRows * kFactors || row >= run.rows) return;
      run.p[factor * run.rows + row] = static_cast<float>(total[t]);
    });
  }

  // The sums of the chunk at `at`; all threads get them, by the butterfly of lane_sum.h.
  template <int kFactors, class Team, class Lanes>
  LONGHAUL_TEXT void Chunk(Team& team, uint32_t first, uint64_t at, Lanes& sums) const {
    const uint64_t end = at + kSumChunk < run.cols ? at + kSumChunk : run.cols;
    const bool whole = (team.index() + 1) * kRows * run.cols <= run.elements;
    team.Each([&](int t) { sums[t] = {}; });
    uint64_t i = at;
    if (whole) {
      for (; i + kBatch <= end; i += kBatch) Batch<kFactors, true>(team, first, i, sums);
    }
    for (; i < end; i += kBatch) Batch<kFactors, false>(team, first, i, sums);
    LONGHAUL_UNROLL
    for (int mask = kWarp / 2; mask > 0; mask /= 2) {
      const auto other = team.Xor(sums, mask);
      team.Each([&](int t) {
        LONGHAUL_UNROLL
        for (int r = 0; r < kRows; ++r) {
          LONGHAUL_UNROLL
          for (int j = 0; j < kFactors; ++j) sums[t].sum[r][j] += other[t].sum[r][j];
        }
      });
    }
  }

  // Elements i .. i + 255 of four rows, of which all exist or not. The phase ends with a barrier,
  // so that no compiler moves the loads of M to where they are used, one after the other.
  template <int kFactors, bool kAll, class Team, class Lanes>
  LONGHAUL_TEXT void Batch(Team& team, uint32_t first, uint64_t i, Lanes& sums) const {
    typename Team::template Own<Steps> loaded;
    team.Phase([&](int t) { Load<kAll>(team.index() * kRows, i + Lane(t), loaded[t]); });
    team.Each([&](int t) {
      const float* from = run.q + first * run.cols + i + Lane(t);
      LONGHAUL_UNROLL
      for (int step = 0; step < kAtOnce; ++step) {
        const bool exists = kAll || i + Lane(t) + step * kSumLanes < run.cols;
        float q[kFactors];
        LONGHAUL_UNROLL
        for (int j = 0; j < kFactors; ++j) {
          const float* column = from + static_cast<uint64_t>(j) * run.cols;
          q[j] = exists ? column[step * kSumLanes] : 0.0f;
        }
        LONGHAUL_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const float m = run.scale * loaded[t].m[step][r];
          LONGHAUL_UNROLL
          for (int j = 0; j < kFactors; ++j) sums[t].sum[r][j] += m * q[j];
        }
      }
    });
  }

  template <bool kAll>
  LONGHAUL_TEXT void Load(uint64_t row, uint64_t column, Steps& steps) const {
    LONGHAUL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const uint64_t begin = (row + static_cast<uint64_t>(r)) * run.cols + column;
      const uint64_t left = begin < run.elements ? run.elements - begin : 0;
      LONGHAUL_UNROLL
      for (int step = 0; step < kAtOnce; ++step) {
        const uint64_t ahead = step * kSumLanes;
        const bool exists = kAll || (column + ahead < run.cols && ahead < left);
        steps.m[step][r] = exists ? run.m[begin + ahead] : 0.0f;
      }
    }
  }

  LONGHAUL_TEXT static uint64_t Lane(int t) { return static_cast<uint64_t>(t); }
};

}  // namespace longhaul
