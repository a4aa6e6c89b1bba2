#pragma once

#include <cmath>

#include "compressors/block_scheme.h"
#include "compressors/cuda/elements.h"
#include "compressors/cuda/lane_sum.h"
#include "compressors/cuda/stat_launch.h"
#include "compressors/tree_sum.h"

// Mean and width of the bins of statistical.h, in the order of tree_sum.h.
namespace longhaul {

LONGHAUL_HOST_DEVICE inline uint64_t StatChunks(const StatRun& run) {
  return (run.elements + kSumChunk - 1) / kSumChunk;
}
LONGHAUL_TEXT std::byte* StatHead(const StatRun& run, uint64_t table, int bins) {
  return run.heads + table * 4 * (1 + static_cast<uint64_t>(bins));
}

enum class StatTerm : uint8_t { kValue, kSquare };  // x, or (x - mu)^2

// One warp per chunk; thread t is lane t of tree_sum.h.
template <StatTerm kTerm, int kBins, DType kType>
struct StatSumKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kAtOnce = 8;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * StatChunks(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t chunks = StatChunks(run), table = team.index() / chunks;
    const uint64_t first = (team.index() - table * chunks) * kSumChunk;
    const uint64_t left = run.elements - first;
    const int c = static_cast<int>(left < kSumChunk ? left : kSumChunk);
    const std::byte* x = run.x + (table * run.elements + first) * kElementBytes;
    float mu = 0;
    if constexpr (kTerm == StatTerm::kSquare) {
      mu = Team::template Load<float>(StatHead(run, table, kBins));
    }
    typename Team::template Own<float> lane;
    typename Team::template Own<bool> bad;
    team.Each([&](int t) { bad[t] = SumLane<Team>(x, c, mu, t, lane[t]); });
    SumLanes(team, lane);
    const auto any_bad = team.Ballot(bad);
    team.Each([&](int t) {
      if (t != 0) return;
      run.totals[team.index()] = lane[t];
      if (any_bad[t] != 0) {
        Team::Min(&run.report->fault, table << 2 | static_cast<uint64_t>(BlockFault::kNotFinite));
      }
    });
  }

  // True where an element is NaN or Inf.
  template <class Team>
  LONGHAUL_TEXT static bool SumLane(const std::byte* x, int c, float mu, int t, float& sum) {
    bool bad = false;
    sum = 0;
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
        if (at + j * kWarp < c) sum += kTerm == StatTerm::kValue ? v[j] : (v[j] - mu) * (v[j] - mu);
      }
    }
    return bad;
  }
};

// One thread per table adds the chunks' totals in fp64, by index; after the second sum the bins are
// emptied.
template <StatTerm kTerm, int kBins>
struct StatTotalKernel {
  static constexpr int kThreads = kWarp;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.tables + kWarp - 1) / kWarp; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    team.Each([&](int t) {
      const uint64_t table = team.index() * kWarp + static_cast<uint64_t>(t);
      if (table >= run.tables) return;
      const uint64_t chunks = StatChunks(run);
      double sum = 0;
      for (uint64_t i = 0; i < chunks; ++i) {
        sum += static_cast<double>(run.totals[table * chunks + i]);
      }
      if constexpr (kTerm == StatTerm::kValue) {
        const auto mu = static_cast<float>(sum / static_cast<double>(run.elements));
        Team::Store(mu, StatHead(run, table, kBins));
      } else {
        Finish<Team>(table, sum);
      }
    });
  }

  template <class Team>
  LONGHAUL_TEXT void Finish(uint64_t table, double squares) const {
    const float mu = Team::template Load<float>(StatHead(run, table, kBins));
    const auto root = static_cast<float>(sqrt(squares / static_cast<double>(run.elements - 1)));
    const float step = 6 * root / static_cast<float>(kBins);
    const bool usable = step >= 0x1p-126f && step < FromBits(kInfBits);
    run.inverse[table] = 1.0f / (usable ? step : 1.0f);
    for (uint64_t bin = table * kBins; bin < (table + 1) * kBins; ++bin) {
      run.units[bin] = run.counts[bin] = 0;
    }
    const bool finite = (BitsOf(mu) & kAbsMask) < kInfBits && squares - squares == 0;
    if (!finite) {
      Team::Min(&run.report->fault, table << 2 | static_cast<uint64_t>(BlockFault::kRange));
    }
  }
};

}  // namespace longhaul
