#pragma once

#include <type_traits>

#include "compressors/cuda/block_arithmetic.h"
#include "compressors/cuda/code_words.h"
#include "compressors/cuda/stat_sums.h"
#include "compressors/stat_units.h"

namespace longhaul {

// Decoding: a warp works on 1024 elements of a table, a thread on four times eight.
template <int kBits, DType kType>
struct StatSpan {
  static constexpr int kStrips = 4;
  static constexpr uint64_t kElements = uint64_t{kStrips} * kStrip;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  LONGHAUL_HOST_DEVICE static uint64_t PerTable(const StatRun& run) {
    return (run.elements + kElements - 1) / kElements;
  }
  LONGHAUL_TEXT StatSpan(const StatRun& run, uint64_t team) {
    table = team / PerTable(run);
    const uint64_t first = (team - table * PerTable(run)) * kElements;
    x = run.x + (table * run.elements + first) * kElementBytes;
    codes = run.codes + table * run.code_bytes + first / kPerThread * kBits;
    left = run.elements - first;
    whole = left >= kElements && Aligned(x, 16) && Aligned(codes, 8);
  }
  LONGHAUL_TEXT static uint64_t At(int i, int t) {
    return static_cast<uint64_t>(i * kStrip + kPerThread * t);
  }
  LONGHAUL_TEXT int Count(int i, int t) const { return CountBelow(At(i, t), left); }
  LONGHAUL_TEXT std::byte* X(int i, int t) const { return x + At(i, t) * kElementBytes; }
  LONGHAUL_TEXT std::byte* Codes(int i) const { return codes + i * kWarp * kBits; }

  uint64_t table, left;
  std::byte *x, *codes;  // of this span
  bool whole;
};

// Codes, and what the elements of a bin add up to: whole numbers, so teams work on all chunks side
// by side.
template <int kBits, DType kType>
struct StatCodesKernel {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kThreads = 8 * kWarp;
  static constexpr int kPlaces = kThreads / kWarp * kBins;  // each warp has bins of its own
  static constexpr int kStep = kThreads * kPerThread;       // elements of the team at a time
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr int kCountAt = 40;
  struct Sums {
    uint64_t words[kPlaces];  // a count from bit kCountAt on, above a sum of units
  };
  // The codes of eight elements.
  using Codes =
      std::conditional_t<kBits == 2, uint16_t, std::conditional_t<kBits == 4, uint32_t, uint64_t>>;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * StatChunks(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t chunks = StatChunks(run), table = team.index() / chunks;
    const uint64_t first = (team.index() - table * chunks) * kSumChunk, left = run.elements - first;
    const std::byte* x = run.x + (table * run.elements + first) * kElementBytes;
    std::byte* codes = run.codes + table * run.code_bytes + first / kPerThread * kBits;
    const bool whole = left >= kSumChunk && Aligned(x, 16) && Aligned(codes, 8);
    const float mu = Team::template Load<float>(StatHead(run, table, kBins));
    const float inverse = run.inverse[table];
    typename Team::template Shared<Sums> sums;
    team.Phase([&](int t) {
      for (int i = t; i < kPlaces; i += kThreads) sums->words[i] = 0;
    });
    for (int i = 0; i < static_cast<int>(kSumChunk) / kStep; ++i) {
      team.Phase([&](int t) {
        const int at = i * kStep + t * kPerThread;
        const std::byte* from = x + static_cast<uint64_t>(at) * kElementBytes;
        const int count = CountBelow(static_cast<uint64_t>(at), left);
        RawEight<kType> raw;
        if (whole) {
          LoadEight<Team, kType>(from, raw);
        } else {
          LoadSome<Team, kType>(from, count, raw);
        }
        Eight v;
        Widen<kType>(raw, v);
        uint64_t packed = 0;
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) {
          if (e >= count) continue;
          const float position = StatPosition<kBits>(v.x[e], mu, inverse);
          const uint32_t bin = StatBin<kBits>(position);
          packed |= uint64_t{bin} << (kBits * e);
          Join<Team>(position, bin, table, &sums->words[t / kWarp * kBins]);
        }
        std::byte* to = codes + at / kPerThread * kBits;
        if (whole) {
          Team::Store(static_cast<Codes>(packed), to);
        } else {
          StoreBytes<Team>(packed, (count * kBits + 7) / 8, to);
        }
      });
    }
    team.Phase([&](int t) {
      for (int bin = t; bin < kBins; bin += kThreads) {
        uint64_t word = 0;
        for (int place = bin; place < kPlaces; place += kBins) word += sums->words[place];
        if (word == 0) continue;
        const uint64_t at = table * kBins + static_cast<uint64_t>(bin);
        Team::Add(&run.units[at], word & ((uint64_t{1} << kCountAt) - 1));
        Team::Add(&run.counts[at], word >> kCountAt);
      }
    });
  }

  // One addition for an element inside the bins; what those beyond lack goes straight to the table.
  template <class Team>
  LONGHAUL_TEXT void Join(float position, uint32_t bin, uint64_t table, uint64_t* words) const {
    using G = StatGrid<kBits>;
    const uint64_t inside = BitsOf(HoldBetween(position, G::kLowest, G::kHighest)) & G::kUnitMask;
    Team::Add(&words[bin], (uint64_t{1} << kCountAt) + inside);
    const uint64_t missing = static_cast<uint64_t>(StatUnits<kBits>(position, bin)) - inside;
    if (missing != 0) Team::Add(&run.units[table * kBins + bin], missing);
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
    std::byte* offsets = StatHead(run, team.index(), kBins) + 4;
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

template <int kBits, DType kType>
struct DecodeStatKernel {
  static constexpr int kThreads = kWarp;
  using Span = StatSpan<kBits, kType>;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * Span::PerTable(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    const std::byte* head = StatHead(run, span.table, 1 << kBits);
    const float mu = Team::template Load<float>(head);
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      typename Team::template Own<uint64_t> codes;
      if (span.whole) {
        LoadWarpBytes<kBits>(team, span.Codes(i), codes);
        SpreadWarpBytes<kBits>(team, codes);
      }
      team.Each([&](int t) {
        const int count = span.Count(i, t);
        if (!span.whole) {
          codes[t] = LoadBytes<Team>(span.Codes(i) + t * kBits, (count * kBits + 7) / 8);
        }
        Eight v = {};
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) {
          const uint64_t q = codes[t] >> (kBits * e) & ((1u << kBits) - 1);
          if (e < count) v.x[e] = Team::template Load<float>(head + 4 + 4 * q) + mu;
        }
        RawEight<kType> raw;
        Narrow<kType>(v, raw);
        if (span.whole) {
          StoreEight<Team, kType>(raw, span.X(i, t));
        } else {
          StoreSome<Team, kType>(raw, count, span.X(i, t));
        }
      });
    }
  }
};

}  // namespace longhaul
