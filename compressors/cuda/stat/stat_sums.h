#pragma once

#include <cmath>

#include "compressors/cuda/stat/stat_launch.h"
#include "compressors/cuda/team/elements.h"
#include "compressors/cuda/team/lane_sum.h"
#include "compressors/kernels/block_scheme.h"
#include "compressors/kernels/stat_moments.h"
#include "compressors/numbers/tree_sum.h"

// Sums of elements in the order of tree_sum.h, about the mean's estimate or the mean itself
// (stat_moments.h).
namespace longhaul {

template <DType kType>
constexpr uint64_t kStatBytes = kType == DType::kF32 ? 4 : 2;  // of an element

LONGHAUL_HOST_DEVICE inline uint64_t StatChunks(const StatRun& run) {
  return (run.elements + kSumChunk - 1) / kSumChunk;
}
LONGHAUL_TEXT std::byte* StatHead(const StatRun& run, uint64_t table) {
  return run.heads + table * 4 * (1 + static_cast<uint64_t>(run.bins));
}
template <class Team>
LONGHAUL_TEXT void StatReport(const StatRun& run, uint64_t table, BlockFault fault) {
  Team::Min(&run.report->fault, table << 2 | static_cast<uint64_t>(fault));
}

LONGHAUL_TEXT bool NotFinite(float x) { return (BitsOf(x) & kAbsMask) >= kInfBits; }

// What is added up: x - pivot and its square; or, of tables whose `inverse` is 0 because those
// sums did not tell it, (x - mu)^2.
enum class StatSums : uint8_t { kAboutPivot, kAboutMean };

// The mean of a table's first elements, which every warp finds for itself. x: of thread t's table.
template <DType kType, class Team>
LONGHAUL_TEXT void StatPivot(Team& team, uint64_t elements,
                             const typename Team::template Own<const std::byte*>& x,
                             typename Team::template Own<float>& pivot) {
  const int n = static_cast<int>(elements < kPivotElements ? elements : kPivotElements);
  team.Each([&](int t) {
    pivot[t] = 0;
    for (int i = t % kWarp; i < n; i += kWarp) {
      pivot[t] += LoadOne<Team, kType>(x[t] + static_cast<uint64_t>(i) * kStatBytes<kType>);
    }
  });
  SumLanes(team, pivot);
  team.Each([&](int t) { pivot[t] /= static_cast<float>(n); });
}

// Elements first, first + step, ...: a warp looks for what made a sum Inf or NaN, if it was not
// too large a sum.
template <DType kType, class Team>
LONGHAUL_TEXT bool AnyNotFinite(const std::byte* x, uint64_t n, uint64_t first, uint64_t step) {
  bool any = false;
  for (uint64_t i = first; i < n; i += step) {
    any |= NotFinite(LoadOne<Team, kType>(x + i * kStatBytes<kType>));
  }
  return any;
}

// One lane of a chunk of c elements, for threads that are the lanes.
template <DType kType, bool kWhole, class Team>
LONGHAUL_TEXT void AddLane(const std::byte* x, int c, float centre, int lane, float& sum,
                           float& squares) {
  constexpr int kAtOnce = 16;
  constexpr int kLanes = static_cast<int>(kSumLanes);
  sum = squares = 0;
  for (int at = lane; at < (kWhole ? static_cast<int>(kSumChunk) : c); at += kAtOnce * kLanes) {
    const std::byte* from = x + static_cast<uint64_t>(at) * kStatBytes<kType>;
    float v[kAtOnce];
    LONGHAUL_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const uint64_t skip = static_cast<uint64_t>(j * kLanes) * kStatBytes<kType>;
      v[j] = kWhole || at + j * kLanes < c ? LoadOne<Team, kType>(from + skip) : 0.0f;
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (!kWhole && at + j * kLanes >= c) continue;
      const float apart = v[j] - centre;
      sum += apart;
      squares += apart * apart;
    }
  }
}

// Eight lanes of a chunk of c elements, those from 8 r on, for four threads that are 32 lanes.
template <DType kType, bool kWhole, class Team>
LONGHAUL_TEXT void AddEightLanes(const std::byte* x, int c, float centre, int r, Eight& sum,
                                 Eight& squares) {
  constexpr int kAtOnce = kType == DType::kF32 ? 4 : 8;
  constexpr int kLanes = static_cast<int>(kSumLanes);
  sum = squares = Eight{};
  for (int at = r * kPerThread; at < (kWhole ? static_cast<int>(kSumChunk) : c);
       at += kAtOnce * kLanes) {
    const std::byte* from = x + static_cast<uint64_t>(at) * kStatBytes<kType>;
    RawEight<kType> raw[kAtOnce];
    int count[kAtOnce];
    LONGHAUL_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const std::byte* p = from + static_cast<uint64_t>(j * kLanes) * kStatBytes<kType>;
      const int left = c - at - j * kLanes;
      count[j] = kWhole || left > kPerThread ? kPerThread : left < 0 ? 0 : left;
      if (kWhole) {
        LoadEight<Team, kType>(p, raw[j]);
      } else {
        LoadSome<Team, kType>(p, count[j], raw[j]);
      }
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      Eight v;
      Widen<kType>(raw[j], v);
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        if (!kWhole && e >= count[j]) continue;
        const float apart = v.x[e] - centre;
        sum.x[e] += apart;
        squares.x[e] += apart * apart;
      }
    }
  }
}

// Lanes j and j + 16, then 8, are those of threads; 4, 2 and 1 are in each.
template <class Team>
LONGHAUL_TEXT void SumEightLanes(Team& team, typename Team::template Own<Eight>& lanes) {
  LONGHAUL_UNROLL
  for (int mask = 2; mask > 0; mask /= 2) {
    auto other = team.Xor(lanes, mask);
    team.Each([&](int t) {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) lanes[t].x[e] += other[t].x[e];
    });
  }
  team.Each([&](int t) {
    float* x = lanes[t].x;
    for (int e = 0; e < 4; ++e) x[e] += x[e + 4];
    for (int e = 0; e < 2; ++e) x[e] += x[e + 2];
    x[0] += x[1];
  });
}

// A warp adds up eight chunks of a table at once, four threads each.
template <StatSums kSums, DType kType>
struct StatSumKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kThreadsPerChunk = static_cast<int>(kSumLanes) / kPerThread;
  static constexpr uint64_t kChunks = kWarp / kThreadsPerChunk;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t PerTable() const {
    return (StatChunks(run) + kChunks - 1) / kChunks;
  }
  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * PerTable(); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t table = team.index() / PerTable();
    if (kSums == StatSums::kAboutMean && run.inverse[table] != 0) return;
    const uint64_t chunk = (team.index() - table * PerTable()) * kChunks;
    const std::byte* x = run.x + table * run.elements * kStatBytes<kType>;
    typename Team::template Own<float> centre;
    if constexpr (kSums == StatSums::kAboutPivot) {
      typename Team::template Own<const std::byte*> first;
      team.Each([&](int t) { first[t] = x; });
      StatPivot<kType>(team, run.elements, first, centre);
    } else {
      team.Each([&](int t) { centre[t] = Team::template Load<float>(StatHead(run, table)); });
    }
    const bool whole = (chunk + kChunks) * kSumChunk <= run.elements && Aligned(x, 16);
    typename Team::template Own<Eight> sum, squares;
    team.Each([&](int t) {
      const std::byte* from = x + Chunk(chunk, t) * kSumChunk * kStatBytes<kType>;
      const int c = Length(Chunk(chunk, t)), r = t % kThreadsPerChunk;
      if (whole) {
        AddEightLanes<kType, true, Team>(from, c, centre[t], r, sum[t], squares[t]);
      } else {
        AddEightLanes<kType, false, Team>(from, c, centre[t], r, sum[t], squares[t]);
      }
    });
    SumEightLanes(team, sum);
    SumEightLanes(team, squares);
    team.Each([&](int t) { Keep<Team>(x, table, Chunk(chunk, t), t, sum[t], squares[t]); });
  }

  LONGHAUL_TEXT static uint64_t Chunk(uint64_t first, int t) {
    return first + static_cast<uint64_t>(t / kThreadsPerChunk);
  }
  LONGHAUL_TEXT int Length(uint64_t chunk) const {
    if (chunk * kSumChunk >= run.elements) return 0;
    const uint64_t left = run.elements - chunk * kSumChunk;
    return static_cast<int>(left < kSumChunk ? left : kSumChunk);
  }
  // x: of the table.
  template <class Team>
  LONGHAUL_TEXT void Keep(const std::byte* x, uint64_t table, uint64_t chunk, int t,
                          const Eight& sum, const Eight& squares) const {
    if (chunk >= StatChunks(run)) return;
    const auto r = static_cast<uint64_t>(t % kThreadsPerChunk);
    if (r == 0) run.totals[table * StatChunks(run) + chunk] = {sum.x[0], squares.x[0]};
    if (!NotFinite(sum.x[0])) return;
    const std::byte* from = x + chunk * kSumChunk * kStatBytes<kType>;
    if (AnyNotFinite<kType, Team>(from, static_cast<uint64_t>(Length(chunk)), r,
                                  kThreadsPerChunk)) {
      StatReport<Team>(run, table, BlockFault::kNotFinite);
    }
  }
};

}  // namespace longhaul
