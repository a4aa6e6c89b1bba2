#pragma once

#include <cmath>

#include "compressors/block_scheme.h"
#include "compressors/cuda/elements.h"
#include "compressors/cuda/lane_sum.h"
#include "compressors/cuda/stat_launch.h"
#include "compressors/stat_moments.h"
#include "compressors/tree_sum.h"

// Mean and width of the bins (stat_moments.h), in the order of tree_sum.h.
namespace longhaul {

LONGHAUL_HOST_DEVICE inline uint64_t StatChunks(const StatRun& run) {
  return (run.elements + kSumChunk - 1) / kSumChunk;
}
LONGHAUL_TEXT std::byte* StatHead(const StatRun& run, uint64_t table, int bins) {
  return run.heads + table * 4 * (1 + static_cast<uint64_t>(bins));
}

// What a warp adds up: x - pivot and its square; or, of tables whose `inverse` is 0 because those
// sums did not tell it, (x - mu)^2.
enum class StatSums : uint8_t { kAboutPivot, kAboutMean };

// The mean of a table's first elements, which every warp finds for itself.
template <class Team, DType kType>
LONGHAUL_TEXT float StatPivot(Team& team, const StatRun& run, uint64_t table) {
  constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  const std::byte* x = run.x + table * run.elements * kElementBytes;
  const int n = static_cast<int>(run.elements < kPivotElements ? run.elements : kPivotElements);
  typename Team::template Own<float> lane;
  team.Each([&](int t) {
    lane[t] = 0;
    for (int i = t; i < n; i += kWarp) {
      lane[t] += LoadOne<Team, kType>(x + static_cast<uint64_t>(i) * kElementBytes);
    }
  });
  SumLanes(team, lane);
  float pivot = 0;
  team.Each([&](int t) { pivot = lane[t] / static_cast<float>(n); });
  return pivot;
}

// One warp per chunk; thread t is lane t of tree_sum.h.
template <StatSums kSums, int kBins, DType kType>
struct StatSumKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kAtOnce = 8;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * StatChunks(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t chunks = StatChunks(run), table = team.index() / chunks;
    if (kSums == StatSums::kAboutMean && run.inverse[table] != 0) return;
    const uint64_t first = (team.index() - table * chunks) * kSumChunk;
    const uint64_t left = run.elements - first;
    const int c = static_cast<int>(left < kSumChunk ? left : kSumChunk);
    const std::byte* x = run.x + (table * run.elements + first) * kElementBytes;
    float centre;
    if constexpr (kSums == StatSums::kAboutPivot) {
      centre = StatPivot<Team, kType>(team, run, table);
    } else {
      centre = Team::template Load<float>(StatHead(run, table, kBins));
    }
    typename Team::template Own<float> sum, squares;
    typename Team::template Own<bool> bad;
    team.Each([&](int t) { bad[t] = SumLane<Team>(x, c, centre, t, sum[t], squares[t]); });
    SumLanes(team, sum);
    SumLanes(team, squares);
    const auto any_bad = team.Ballot(bad);
    team.Each([&](int t) {
      if (t != 0) return;
      run.totals[2 * team.index()] = sum[t];
      run.totals[2 * team.index() + 1] = squares[t];
      if (any_bad[t] != 0) {
        Team::Min(&run.report->fault, table << 2 | static_cast<uint64_t>(BlockFault::kNotFinite));
      }
    });
  }

  // True where an element is NaN or Inf.
  template <class Team>
  LONGHAUL_TEXT static bool SumLane(const std::byte* x, int c, float centre, int t, float& sum,
                                    float& squares) {
    bool bad = false;
    sum = squares = 0;
    for (int at = t; at < c; at += kAtOnce * kWarp) {
      float v[kAtOnce];
      LONGHAUL_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = at + j * kWarp;
        v[j] = i < c ? LoadOne<Team, kType>(x + static_cast<uint64_t>(i) * kElementBytes) : 0.0f;
      }
      LONGHAUL_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        bad |= (BitsOf(v[j]) & kAbsMask) >= kInfBits;
        if (at + j * kWarp >= c) continue;
        sum += v[j] - centre;
        squares += (v[j] - centre) * (v[j] - centre);
      }
    }
    return bad;
  }
};

// One thread per table adds the chunks' totals in fp64, by index. After the first sums the bins
// are emptied.
template <StatSums kSums, int kBins, DType kType>
struct StatTotalKernel {
  static constexpr int kThreads = kWarp;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t table = team.index();
    float pivot = 0;
    if constexpr (kSums == StatSums::kAboutPivot) pivot = StatPivot<Team, kType>(team, run, table);
    team.Each([&](int t) {
      if (t != 0 || (kSums == StatSums::kAboutMean && run.inverse[table] != 0)) return;
      const uint64_t chunks = StatChunks(run);
      double sum = 0, squares = 0;
      for (uint64_t i = table * chunks; i < (table + 1) * chunks; ++i) {
        sum += static_cast<double>(run.totals[2 * i]);
        squares += static_cast<double>(run.totals[2 * i + 1]);
      }
      std::byte* head = StatHead(run, table, kBins);
      if constexpr (kSums == StatSums::kAboutPivot) {
        Team::Store(StatMean(pivot, sum, run.elements), head);
        for (uint64_t bin = table * kBins; bin < (table + 1) * kBins; ++bin) {
          run.units[bin] = run.counts[bin] = 0;
        }
        squares = SquaresAboutMean(sum, squares, run.elements);
      }
      Finish<Team>(table, Team::template Load<float>(head), squares);
    });
  }

  template <class Team>
  LONGHAUL_TEXT void Finish(uint64_t table, float mu, double squares) const {
    run.inverse[table] = squares < 0 ? 0.0f : StatInverse(squares, run.elements, kBins);
    const bool finite = (BitsOf(mu) & kAbsMask) < kInfBits && squares - squares == 0;
    if (!finite) {
      Team::Min(&run.report->fault, table << 2 | static_cast<uint64_t>(BlockFault::kRange));
    }
  }
};

}  // namespace longhaul
