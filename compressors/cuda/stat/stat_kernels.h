#pragma once

#include "compressors/cuda/stat/stat_tally.h"
#include "compressors/cuda/team/code_words.h"

// Encoding of long tables, after their sums: codes, then what the codes stand for.
namespace longhaul {

// A warp has a chunk, a team eight of one table. What the elements of a bin add up to are whole
// numbers, so teams work on all chunks side by side.
template <int kBits, DType kType>
struct StatCodesKernel {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kThreads = 8 * kWarp;
  static constexpr int kWarps = kThreads / kWarp;
  static_assert(kBins <= kThreads);
  struct Place {
    alignas(16) StatWords<kBits> words[kWarps];
    uint32_t units[kBins], counts[kBins];
    StatBeyond beyond[kWarps];
  };

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t PerTable() const { return (StatChunks(run) + kWarps - 1) / kWarps; }
  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * PerTable(); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    // Teams that are whole blocks are fewer than 2^31.
    const auto index = static_cast<uint32_t>(team.index());
    const uint64_t table = index / static_cast<uint32_t>(PerTable());
    const uint64_t first = (index - table * PerTable()) * kWarps;
    typename Team::template Own<StatChunk> chunk;
    typename Team::template Own<StatTally<kBits>> tally;
    typename Team::template Own<StatBeyond> beyond;
    typename Team::template Shared<Place> place;
    team.Phase([&](int t) {
      const uint64_t mine = first + static_cast<uint64_t>(t / kWarp);
      chunk[t] = StatChunkAt<kBits, kType>(run, table, mine * kSumChunk);
      chunk[t].mu = Team::template Load<float>(StatHead(run, table));
      chunk[t].inverse = run.inverse[table];
      tally[t] = {};
      beyond[t] = {};
      EmptyWords<kBits>(t, place->words[t / kWarp], tally[t]);
      tally[t] = {};
      if (t < kBins) place->units[t] = place->counts[t] = 0;
    });
    CodeChunks<kBits, kType>(team, chunk, place, tally, beyond);
    JoinTallies<kBits>(team, tally, beyond);
    team.Phase([&](int t) {
      using T = StatTally<kBits>;
      const int lane = t % kWarp;
      if (lane == 0) place->beyond[t / kWarp] = beyond[t];
      if (lane % T::kSharers != 0) return;
      for (int i = 0; i < T::kOwned; ++i) {
        Team::Add(&place->units[T::Bin(i, lane)], tally[t].units[i]);
        Team::Add(&place->counts[T::Bin(i, lane)], tally[t].counts[i]);
      }
    });
    team.Phase([&](int t) {
      if (t >= kBins || place->counts[t] == 0) return;
      auto units = int64_t{place->units[t]};
      for (int warp = 0; warp < kWarps; ++warp) {
        if (t == 0) units = WrappingSum(units, place->beyond[warp].low);
        if (t == kBins - 1) units = WrappingSum(units, place->beyond[warp].high);
      }
      const uint64_t at = table * kBins + static_cast<uint64_t>(t);
      Team::Add(&run.units[at], static_cast<uint64_t>(units));
      Team::Add(&run.counts[at], uint64_t{place->counts[t]});
    });
  }
};

// The tables from the bins' sums, one warp for each.
template <int kBits>
struct StatMeansKernel {
  static constexpr int kThreads = kWarp, kBins = 1 << kBits;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t first = team.index() * kBins;
    std::byte* offsets = StatHead(run, team.index()) + 4;
    const double width = 1.0 / static_cast<double>(run.inverse[team.index()]);
    team.Each([&](int t) {
      for (int bin = t; bin < kBins; bin += kWarp) {
        const uint64_t at = first + static_cast<uint64_t>(bin);
        const auto units = static_cast<int64_t>(run.units[at]);
        Team::Store(StatOffset<kBits>(bin, units, run.counts[at], width), offsets + 4 * bin);
      }
    });
  }
};

}  // namespace longhaul
