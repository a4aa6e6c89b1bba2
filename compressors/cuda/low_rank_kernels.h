#pragma once

#include <cmath>

#include "compressors/cuda/elements.h"
#include "compressors/cuda/lane_sum.h"
#include "compressors/cuda/low_rank_launch.h"
#include "compressors/tree_sum.h"

namespace longhaul {

constexpr int kFactorsAtOnce = 4;  // columns for one reading of M

// One warp per row of M, a thread for each lane of tree_sum.h. M is read rank / 4 times, Q comes
// from the caches.
struct ProjectKernel {
  static constexpr int kThreads = kWarp;
  struct Lane {
    float sum[kFactorsAtOnce];
  };
  struct Total {
    double sum[kFactorsAtOnce];
  };

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t row = team.index();
    for (uint32_t first = 0; first < run.rank; first += kFactorsAtOnce) {
      typename Team::template Own<Total> total;
      team.Each([&](int t) { total[t] = {}; });
      for (uint64_t at = 0; at < run.cols; at += kSumChunk) Chunk(team, row, first, at, total);
      team.Each([&](int t) {
        if (t >= kFactorsAtOnce || first + static_cast<uint32_t>(t) >= run.rank) return;
        double sum = total[t].sum[0];
        LONGHAUL_UNROLL
        for (int j = 1; j < kFactorsAtOnce; ++j) sum = t == j ? total[t].sum[j] : sum;
        run.p[(first + static_cast<uint32_t>(t)) * run.rows + row] = static_cast<float>(sum);
      });
    }
  }

  template <class Team, class Totals>
  LONGHAUL_TEXT void Chunk(Team& team, uint64_t row, uint32_t first, uint64_t at,
                           Totals& total) const {
    const uint64_t left = run.cols - at, c = left < kSumChunk ? left : kSumChunk;
    typename Team::template Own<Lane> lane;
    team.Each([&](int t) {
      lane[t] = {};
      for (uint64_t i = at + static_cast<uint64_t>(t); i < at + c; i += kWarp) {
        const uint64_t element = row * run.cols + i;
        const float m = element < run.elements ? run.scale * run.m[element] : 0.0f;
        LONGHAUL_UNROLL
        for (int j = 0; j < kFactorsAtOnce; ++j) {
          const uint32_t column = first + static_cast<uint32_t>(j);
          if (column < run.rank) lane[t].sum[j] += m * run.q[column * run.cols + i];
        }
      }
    });
    LONGHAUL_UNROLL
    for (int mask = kWarp / 2; mask > 0; mask /= 2) {
      auto other = team.Xor(lane, mask);
      team.Each([&](int t) {
        LONGHAUL_UNROLL
        for (int j = 0; j < kFactorsAtOnce; ++j) lane[t].sum[j] += other[t].sum[j];
      });
    }
    team.Each([&](int t) {
      LONGHAUL_UNROLL
      for (int j = 0; j < kFactorsAtOnce; ++j) {
        total[t].sum[j] += static_cast<double>(lane[t].sum[j]);
      }
    });
  }
};

// One thread per column of M, which adds the rows in their order: neighbouring threads read
// neighbouring elements.
struct ProjectBackKernel {
  static constexpr int kThreads = kWarp;

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.cols + kWarp - 1) / kWarp; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    team.Each([&](int t) {
      const uint64_t column = team.index() * kWarp + static_cast<uint64_t>(t);
      if (column >= run.cols) return;
      for (uint32_t first = 0; first < run.rank; first += kFactorsAtOnce) {
        float sum[kFactorsAtOnce] = {};
        for (uint64_t row = 0; row < run.rows; ++row) {
          const uint64_t element = row * run.cols + column;
          const float m = element < run.elements ? run.scale * run.m[element] : 0.0f;
          LONGHAUL_UNROLL
          for (int j = 0; j < kFactorsAtOnce; ++j) {
            const uint32_t factor = first + static_cast<uint32_t>(j);
            if (factor < run.rank) sum[j] += run.p[factor * run.rows + row] * m;
          }
        }
        LONGHAUL_UNROLL
        for (int j = 0; j < kFactorsAtOnce; ++j) {
          const uint32_t factor = first + static_cast<uint32_t>(j);
          if (factor < run.rank) run.q[factor * run.cols + column] = sum[j];
        }
      }
    });
  }
};

// One team for all of P, whose columns depend on each other.
struct OrthogonalizeKernel {
  static constexpr int kThreads = 512;
  static constexpr int kWarps = kThreads / kWarp;

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return 1; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    for (uint32_t j = 0; j < run.rank; ++j) {
      float* column = run.p + j * run.rows;
      const double before = sqrt(Dot(team, column, column));
      for (int pass = 0; pass < 2; ++pass) {
        for (uint32_t i = 0; i < j; ++i) {
          const float* other = run.p + i * run.rows;
          const float along = -static_cast<float>(Dot(team, other, column));
          ForEachRow(team, [&](uint64_t k) { column[k] += along * other[k]; });
        }
      }
      const double after = sqrt(Dot(team, column, column));
      const float inverse = after > 1e-5 * before ? static_cast<float>(1 / after) : 0.0f;
      ForEachRow(team, [&](uint64_t k) { column[k] = inverse == 0 ? 0.0f : column[k] * inverse; });
    }
  }

  template <class Team, class Visit>
  LONGHAUL_TEXT void ForEachRow(Team& team, Visit visit) const {
    team.Phase([&](int t) {
      for (uint64_t k = static_cast<uint64_t>(t); k < run.rows; k += kThreads) visit(k);
    });
  }

  // Chunks of 4096 in the order of tree_sum.h, a warp for each; their totals in fp64, by index.
  template <class Team>
  LONGHAUL_TEXT double Dot(Team& team, const float* x, const float* y) const {
    const uint64_t chunks = (run.rows + kSumChunk - 1) / kSumChunk;
    for (uint64_t first = 0; first < chunks; first += kWarps) {
      typename Team::template Own<float> lane;
      team.Each([&](int t) {
        const uint64_t at = (first + static_cast<uint64_t>(t / kWarp)) * kSumChunk;
        const uint64_t end = at + kSumChunk < run.rows ? at + kSumChunk : run.rows;
        lane[t] = 0;
        for (uint64_t i = at + static_cast<uint64_t>(t % kWarp); i < end; i += kWarp) {
          lane[t] += x[i] * y[i];
        }
      });
      SumLanes(team, lane);
      team.Phase([&](int t) {
        const uint64_t chunk = first + static_cast<uint64_t>(t / kWarp);
        if (t % kWarp == 0 && chunk < chunks) run.totals[chunk] = lane[t];
      });
    }
    typename Team::template Own<double> sum;
    team.Phase([&](int t) {
      sum[t] = 0;
      for (uint64_t i = 0; i < chunks; ++i) sum[t] += static_cast<double>(run.totals[i]);
    });
    return sum[team.thread()];
  }
};

// x = P Q^T: a thread has eight neighbouring elements of the flat order.
template <DType kType>
struct ReconstructKernel {
  static constexpr int kThreads = kWarp;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.elements + kStrip - 1) / kStrip; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    team.Each([&](int t) {
      const uint64_t at = team.index() * kStrip + static_cast<uint64_t>(kPerThread * t);
      const int count = CountBelow(at, run.elements);
      if (count == 0) return;
      uint64_t row = at / run.cols, column = at - row * run.cols;
      Eight v = {};
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        if (e < count) {
          for (uint32_t j = 0; j < run.rank; ++j) {
            v.x[e] += run.p[j * run.rows + row] * run.q[j * run.cols + column];
          }
        }
        if (++column == run.cols) {
          column = 0;
          ++row;
        }
      }
      if (MaxBits(v) >= kInfBits) Team::Min(&run.report->fault, 0);
      RawEight<kType> raw;
      Narrow<kType>(v, raw);
      std::byte* x = run.x + at * kElementBytes;
      if (count == kPerThread && Aligned(x, 16)) {
        StoreEight<Team, kType>(raw, x);
      } else {
        StoreSome<Team, kType>(raw, count, x);
      }
    });
  }
};

}  // namespace longhaul
