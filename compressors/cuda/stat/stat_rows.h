#pragma once

#include "compressors/cuda/stat/stat_tally.h"
#include "compressors/cuda/stat/stat_totals.h"

namespace longhaul {

// Tables of few chunks: a warp encodes one from its sums to the frame, so that it reads it from
// memory once and finds it in the caches the second time. A team has eight tables.
template <int kBits, DType kType>
struct StatRowsKernel {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kThreads = 8 * kWarp;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr uint64_t kMostChunks = 16;  // as StatTally has room for
  struct Place {
    alignas(16) StatWords<kBits> words[kWarps];
  };
  struct Table {
    const std::byte* x;
    float mu, inverse;
    double sum, squares;
  };

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.tables + kWarps - 1) / kWarps; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    typename Team::template Own<Table> table;
    SetMoments(team, table);
    typename Team::template Shared<Place> place;
    typename Team::template Own<StatTally<kBits>> tally;
    typename Team::template Own<StatBeyond> beyond;
    team.Phase([&](int t) {
      beyond[t] = {};
      tally[t] = {};
      EmptyWords<kBits>(t, place->words[t / kWarp], tally[t]);
      tally[t] = {};
    });
    for (uint64_t first = 0; first < run.elements; first += kSumChunk) {
      typename Team::template Own<StatChunk> chunk;
      team.Each([&](int t) {
        chunk[t] = StatChunkAt<kBits, kType>(run, Number(team, t), first);
        if (Number(team, t) >= run.tables) {
          chunk[t].whole = false;
          chunk[t].elements = 0;
        }
        chunk[t].mu = table[t].mu;
        chunk[t].inverse = table[t].inverse;
      });
      CodeChunks<kBits, kType>(team, chunk, place, tally, beyond);
    }
    JoinTallies<kBits>(team, tally, beyond);
    team.Each([&](int t) {
      if (Number(team, t) < run.tables) Store(team, t, table[t], tally[t], beyond[t]);
    });
  }

  template <class Team>
  LONGHAUL_TEXT static uint64_t Number(const Team& team, int t) {
    return team.index() * kWarps + static_cast<uint64_t>(t / kWarp);
  }
  // A chunk's sums about the centres, 0 for threads that do not want them.
  template <class Team, class Wanted>
  LONGHAUL_TEXT void AddChunk(Team& team, uint64_t first,
                              const typename Team::template Own<const std::byte*>& x,
                              const typename Team::template Own<float>& centre, Wanted wanted,
                              typename Team::template Own<float>& sum,
                              typename Team::template Own<float>& squares) const {
    const uint64_t left = run.elements - first;
    team.Each([&](int t) {
      const std::byte* from = x[t] + first * kStatBytes<kType>;
      sum[t] = squares[t] = 0;
      if (!wanted(t)) return;
      if (left >= kSumChunk) {
        AddLane<kType, true, Team>(from, 0, centre[t], t % kWarp, sum[t], squares[t]);
      } else {
        AddLane<kType, false, Team>(from, static_cast<int>(left), centre[t], t % kWarp, sum[t],
                                    squares[t]);
      }
    });
    SumLanes(team, sum);
    SumLanes(team, squares);
  }

  // As StatSumKernel and StatTotalKernel, every thread of a warp alike.
  template <class Team>
  LONGHAUL_TEXT void SetMoments(Team& team, typename Team::template Own<Table>& table) const {
    typename Team::template Own<const std::byte*> x;
    typename Team::template Own<float> pivot, mu, sum, squares;
    team.Each([&](int t) {
      // A warp beyond the last table reads the last one, and stores nothing.
      const uint64_t number = Number(team, t) < run.tables ? Number(team, t) : run.tables - 1;
      x[t] = run.x + number * run.elements * kStatBytes<kType>;
      table[t].sum = table[t].squares = 0;
    });
    StatPivot<kType>(team, run.elements, x, pivot);
    for (uint64_t first = 0; first < run.elements; first += kSumChunk) {
      AddChunk(
          team, first, x, pivot, [](int) { return true; }, sum, squares);
      team.Each([&](int t) {
        table[t].sum += static_cast<double>(sum[t]);
        table[t].squares += static_cast<double>(squares[t]);
      });
    }
    typename Team::template Own<bool> again;
    team.Each([&](int t) {
      mu[t] = StatMean(pivot[t], table[t].sum, run.elements);
      const double apart = SquaresAboutMean(table[t].sum, table[t].squares, run.elements);
      again[t] = apart < 0;
      table[t].squares = again[t] ? 0 : apart;
    });
    for (uint64_t first = 0; first < run.elements; first += kSumChunk) {
      AddChunk(
          team, first, x, mu, [&](int t) { return again[t]; }, sum, squares);
      team.Each([&](int t) { table[t].squares += static_cast<double>(squares[t]); });
    }
    team.Each([&](int t) {
      table[t].mu = mu[t];
      table[t].inverse = InverseOrNone(table[t].squares, run);
      if (MomentsFinite(mu[t], table[t].squares) || Number(team, t) >= run.tables) return;
      const bool not_finite =
          AnyNotFinite<kType, Team>(x[t], run.elements, static_cast<uint64_t>(t % kWarp), kWarp);
      StatReport<Team>(run, Number(team, t),
                       not_finite ? BlockFault::kNotFinite : BlockFault::kRange);
    });
  }

  template <class Team>
  LONGHAUL_TEXT void Store(const Team& team, int t, const Table& table,
                           const StatTally<kBits>& tally, const StatBeyond& beyond) const {
    using T = StatTally<kBits>;
    const int lane = t % kWarp;
    std::byte* head = StatHead(run, Number(team, t));
    if (lane == 0) Team::Store(table.mu, head);
    if (lane % T::kSharers != 0) return;
    const double width = 1.0 / static_cast<double>(table.inverse);
    LONGHAUL_UNROLL
    for (int i = 0; i < T::kOwned; ++i) {
      const int bin = T::Bin(i, lane);
      int64_t units = tally.units[i];
      if (bin == 0) units = WrappingSum(units, beyond.low);
      if (bin == kBins - 1) units = WrappingSum(units, beyond.high);
      Team::Store(StatOffset<kBits>(bin, units, tally.counts[i], width), head + 4 + 4 * bin);
    }
  }
};

}  // namespace longhaul
