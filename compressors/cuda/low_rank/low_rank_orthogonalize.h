#pragma once

#include <cmath>

#include "compressors/cuda/low_rank/low_rank_launch.h"
#include "compressors/cuda/team/lane_sum.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {

// One team for all of P, whose columns depend on each other. A dot product is taken in tiles of two
// chunks: all threads multiply, then a warp for each chunk adds up in the order of tree_sum.h. The
// subtraction that precedes it (column += along * other) happens in the same pass.
struct OrthogonalizeKernel {
  static constexpr int kThreads = 512;
  static constexpr int kResidentThreads = 512;
  static constexpr int kChunks = 2;
  static constexpr uint64_t kTile = kChunks * kSumChunk;
  static constexpr int kPerTile = static_cast<int>(kTile) / kThreads;  // rows of a thread
  static constexpr int kInFlight = 8;

  struct Tile {
    float product[kTile];
    float total[kChunks];
  };
  // What is added to a column first: along * other. None: other is nullptr.
  struct Addend {
    const float* other;
    float along;
  };

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return 1; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    typename Team::template Shared<Tile> tile;
    for (uint32_t j = 0; j < run.rank; ++j) {
      float* column = run.p + j * run.rows;
      const double before = sqrt(Dot(team, tile, column, {nullptr, 0}, column));
      Addend addend = {nullptr, 0};
      for (uint32_t step = 0; step < 2 * j; ++step) {  // Gram-Schmidt, twice
        const float* other = run.p + (step < j ? step : step - j) * run.rows;
        addend = {other, -static_cast<float>(Dot(team, tile, column, addend, other))};
      }
      const double after = sqrt(Dot(team, tile, column, addend, column));
      Scale(team, column, after > 1e-5 * before ? static_cast<float>(1 / after) : 0.0f);
    }
  }

  // column += addend; then column . y, which may be column itself.
  template <class Team, class SharedTile>
  LONGHAUL_TEXT double Dot(Team& team, SharedTile& tile, float* column, Addend addend,
                           const float* y) const {
    typename Team::template Own<double> sum;
    team.Each([&](int t) { sum[t] = 0; });
    for (uint64_t first = 0; first < run.rows; first += kTile) {
      team.Phase([&](int t) {
        for (int i = 0; i < kPerTile; i += kInFlight) {
          Multiply(first, t + i * kThreads, column, addend, y, *tile.operator->());
        }
      });
      AddProducts(team, tile, run.rows - first);
      team.Phase([&](int t) {
        LONGHAUL_UNROLL
        for (int c = 0; c < kChunks; ++c) sum[t] += static_cast<double>(tile->total[c]);
      });
    }
    return sum[team.thread()];
  }

  // Rows first + at, and every kThreads after it: products with what does not exist are +0.
  LONGHAUL_TEXT void Multiply(uint64_t first, int at, float* column, Addend addend, const float* y,
                              Tile& tile) const {
    float v[kInFlight], other[kInFlight], a[kInFlight];
    LONGHAUL_UNROLL
    for (int i = 0; i < kInFlight; ++i) {
      const uint64_t k = first + static_cast<uint64_t>(at + i * kThreads);
      const bool exists = k < run.rows;
      v[i] = exists ? column[k] : 0.0f;
      a[i] = exists && addend.other != nullptr ? addend.other[k] : 0.0f;
      other[i] = exists && y != column ? y[k] : 0.0f;
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < kInFlight; ++i) {
      const uint64_t k = first + static_cast<uint64_t>(at + i * kThreads);
      if (addend.other != nullptr) {
        v[i] += addend.along * a[i];
        if (k < run.rows) column[k] = v[i];
      }
      tile.product[at + i * kThreads] = v[i] * (y == column ? v[i] : other[i]);
    }
  }

  // The totals of the tile's chunks, of which `rows` products exist; the others are +0, which
  // changes no sum that began with +0.
  template <class Team, class SharedTile>
  LONGHAUL_TEXT void AddProducts(Team& team, SharedTile& tile, uint64_t rows) const {
    typename Team::template Own<float> lane;
    team.Phase([&](int t) {
      lane[t] = 0;
      const uint64_t begin = static_cast<uint64_t>(t / kWarp) * kSumChunk;
      if (t / kWarp >= kChunks || begin >= rows) return;
      const float* product = tile->product + begin + t % kWarp;
      const int count = static_cast<int>(rows - begin < kSumChunk ? rows - begin : kSumChunk);
      for (int i = 0; i < count; i += 16 * kWarp) {
        LONGHAUL_UNROLL
        for (int step = 0; step < 16; ++step) lane[t] += product[i + step * kWarp];
      }
    });
    SumLanes(team, lane);
    team.Phase([&](int t) {
      if (t % kWarp == 0 && t / kWarp < kChunks) tile->total[t / kWarp] = lane[t];
    });
  }

  template <class Team>
  LONGHAUL_TEXT void Scale(Team& team, float* column, float inverse) const {
    team.Phase([&](int t) {
      for (uint64_t first = static_cast<uint64_t>(t); first < run.rows;
           first += kInFlight * kThreads) {
        float v[kInFlight];
        LONGHAUL_UNROLL
        for (int i = 0; i < kInFlight; ++i) {
          const uint64_t k = first + static_cast<uint64_t>(i * kThreads);
          v[i] = k < run.rows ? column[k] : 0.0f;
        }
        LONGHAUL_UNROLL
        for (int i = 0; i < kInFlight; ++i) {
          const uint64_t k = first + static_cast<uint64_t>(i * kThreads);
          if (k < run.rows) column[k] = inverse == 0 ? 0.0f : v[i] * inverse;
        }
      }
    });
  }
};

}  // namespace longhaul
