#pragma once

#include "compressors/cuda/low_rank/low_rank_launch.h"
#include "compressors/cuda/team/elements.h"

namespace longhaul {

// Q = scale M^T P. An element of Q is one chain of additions over all rows, so what keeps the
// memory busy is the loading ahead: a team has 32 columns, whose next 256 rows (32 KiB) are on
// their way to registers while the last 256 are added up from shared memory, by a warp for each
// factor. M is read once per eight factors.
//
// What does not exist counts as 0 times 0: no sum that began with +0 changes when +0 is added.
struct ProjectBackKernel {
  static constexpr int kThreads = 256;
  static constexpr int kResidentThreads = 512;  // 128 registers: a tile is in them on its way
  static constexpr int kFactors = kThreads / kWarp;
  static constexpr int kColumns = 32;
  static constexpr int kRowThreads = kColumns / 4;            // threads that load a row
  static constexpr int kRowsAtOnce = kThreads / kRowThreads;  // rows that the team loads at once
  static constexpr int kLoads = 8;                            // of a thread in flight
  static constexpr int kRows = kLoads * kRowsAtOnce;

  // A tile of M, times scale, and the same rows of P.
  struct alignas(16) Tile {
    Quad m[kRows][kColumns / 4];
    float p[kFactors][kRows];
  };
  struct Fetched {
    Quad m[kLoads];
    float p[kLoads];
  };

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.cols + kColumns - 1) / kColumns; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    typename Team::template Shared<Tile> tile;
    for (uint32_t first = 0; first < run.rank; first += kFactors) Factors(team, first, tile);
  }

  template <class Team, class SharedTile>
  LONGHAUL_TEXT void Factors(Team& team, uint32_t first, SharedTile& tile) const {
    const uint64_t column = team.index() * kColumns;
    typename Team::template Own<Fetched> next;
    typename Team::template Own<float> sum;
    team.Each([&](int t) {
      sum[t] = 0;
      Fetch<Team>(t, column, first, 0, next[t]);
    });
    for (uint64_t row = 0; row < run.rows; row += kRows) {
      team.Phase([&](int t) { Put(t, ByQuads(column, row), next[t], *tile.operator->()); });
      const uint64_t left = run.rows - row;
      team.Phase([&](int t) {
        if (left > kRows) Fetch<Team>(t, column, first, row + kRows, next[t]);
        const uint32_t factor = static_cast<uint32_t>(t / kWarp);
        if (first + factor >= run.rank) return;
        if (left >= kRows) {
          AddRows<kRows>(t, kRows, *tile.operator->(), sum[t]);
        } else {
          AddRows<4>(t, static_cast<int>(left), *tile.operator->(), sum[t]);
        }
      });
    }
    team.Each([&](int t) {
      const uint32_t factor = first + static_cast<uint32_t>(t / kWarp);
      const uint64_t at = column + static_cast<uint64_t>(t % kWarp);
      if (factor < run.rank && at < run.cols) run.q[factor * run.cols + at] = sum[t];
    });
  }

  // Whether a tile is loaded by 16 bytes, eight threads to a row. Any other is loaded float by
  // float, a warp to a row.
  LONGHAUL_TEXT bool ByQuads(uint64_t column, uint64_t row) const {
    return run.cols % 4 == 0 && Aligned(reinterpret_cast<const std::byte*>(run.m), 16) &&
           column + kColumns <= run.cols && (row + kRows) * run.cols <= run.elements;
  }

  // Loads of rows row .. row + kRows - 1: of M by the whole team, of P by the warp of its factor.
  template <class Team>
  LONGHAUL_TEXT void Fetch(int t, uint64_t column, uint32_t first, uint64_t row,
                           Fetched& next) const {
    if (ByQuads(column, row)) {
      const float* m = run.m + (row + static_cast<uint64_t>(t / kRowThreads)) * run.cols + column +
                       static_cast<uint64_t>(t % kRowThreads * 4);
      LONGHAUL_UNROLL
      for (int i = 0; i < kLoads; ++i) {
        next.m[i] = Team::Load16(reinterpret_cast<const std::byte*>(m));
        m += kRowsAtOnce * run.cols;
      }
    } else {
      FetchFloats(t, column, row, next);
    }
    const uint32_t factor = first + static_cast<uint32_t>(t / kWarp);
    if (factor >= run.rank) return;
    const float* p = run.p + factor * run.rows;
    LONGHAUL_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const uint64_t at = row + static_cast<uint64_t>(t % kWarp + i * kWarp);
      next.p[i] = at < run.rows ? p[at] : 0.0f;
    }
  }
  LONGHAUL_TEXT void FetchFloats(int t, uint64_t column, uint64_t row, Fetched& next) const {
    const uint64_t at = column + static_cast<uint64_t>(t % kColumns);
    uint64_t element = (row + static_cast<uint64_t>(t / kColumns)) * run.cols + at;
    LONGHAUL_UNROLL
    for (int i = 0; i < 4 * kLoads; ++i) {
      const bool exists = at < run.cols && element < run.elements;
      next.m[i / 4].word[i % 4] = exists ? BitsOf(run.m[element]) : 0;
      element += kThreads / kColumns * run.cols;
    }
  }

  LONGHAUL_TEXT void Put(int t, bool by_quads, const Fetched& next, Tile& tile) const {
    LONGHAUL_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      Quad m;
      LONGHAUL_UNROLL
      for (int e = 0; e < 4; ++e) {
        m.word[e] = BitsOf(run.scale * FromBits(next.m[i].word[e]));
        if (by_quads) continue;
        const int row = t / kColumns + (4 * i + e) * (kThreads / kColumns);
        tile.m[row][t % kColumns / 4].word[t % 4] = m.word[e];
      }
      if (by_quads) tile.m[t / kRowThreads + i * kRowsAtOnce][t % kRowThreads] = m;
      tile.p[t / kWarp][t % kWarp + i * kWarp] = next.p[i];
    }
  }

  // The tile's rows in their order, `rows` of them and perhaps zeros behind.
  template <int kUnrolled>
  LONGHAUL_TEXT void AddRows(int t, int rows, const Tile& tile, float& sum) const {
    constexpr int kStep = kUnrolled < 16 ? kUnrolled : 16;
    const float* p = tile.p[t / kWarp];
    for (int row = 0; row < rows; row += kStep) {
      LONGHAUL_UNROLL
      for (int i = 0; i < kStep; ++i) {
        const uint32_t m = tile.m[row + i][t % kColumns / 4].word[t % 4];
        sum += p[row + i] * FromBits(m);
      }
    }
  }
};

}  // namespace longhaul
