#pragma once

#include "compressors/cuda/block_arithmetic.h"
#include "compressors/cuda/code_words.h"
#include "compressors/cuda/stat_sums.h"
#include "compressors/stat_units.h"

namespace longhaul {

// A warp works on 1024 elements of a table, in both directions; a thread on four times eight.
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

template <int kBits, DType kType>
struct StatCodesKernel {
  static constexpr int kThreads = kWarp;
  using Span = StatSpan<kBits, kType>;

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * Span::PerTable(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Span span(run, team.index());
    const float mu = Team::template Load<float>(StatHead(run, span.table, 1 << kBits));
    const float inverse = run.inverse[span.table];
    LONGHAUL_UNROLL
    for (int i = 0; i < Span::kStrips; ++i) {
      typename Team::template Own<uint64_t> codes;
      team.Each([&](int t) {
        RawEight<kType> raw;
        const int count = span.Count(i, t);
        if (span.whole) {
          LoadEight<Team, kType>(span.X(i, t), raw);
        } else {
          LoadSome<Team, kType>(span.X(i, t), count, raw);
        }
        Eight v;
        Widen<kType>(raw, v);
        codes[t] = 0;
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) {
          const uint32_t q =
              e < count ? StatBin<kBits>(StatPosition<kBits>(v.x[e], mu, inverse)) : 0;
          codes[t] |= uint64_t{q} << (kBits * e);
        }
        if (!span.whole) {
          StoreBytes<Team>(codes[t], (count * kBits + 7) / 8, span.Codes(i) + t * kBits);
        }
      });
      if (span.whole) StoreWarpBytes<kBits>(team, codes, span.Codes(i));
    }
  }
};

// What the elements of a bin add up to: whole numbers, so teams work on all chunks side by side.
template <int kBits, DType kType>
struct StatBinsKernel {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kThreads = 8 * kWarp;
  static constexpr int kPlaces = kThreads / kWarp * kBins;  // each warp has bins of its own
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Sums {
    uint64_t units[kPlaces];
    uint32_t count[kPlaces];
  };

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * StatChunks(run); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t chunks = StatChunks(run), table = team.index() / chunks;
    const uint64_t first = (team.index() - table * chunks) * kSumChunk, left = run.elements - first;
    const int c = static_cast<int>(left < kSumChunk ? left : kSumChunk);
    const std::byte* x = run.x + (table * run.elements + first) * kElementBytes;
    const float mu = Team::template Load<float>(StatHead(run, table, kBins));
    const float inverse = run.inverse[table];
    typename Team::template Shared<Sums> sums;
    team.Phase([&](int t) {
      for (int i = t; i < kPlaces; i += kThreads) sums->units[i] = sums->count[i] = 0;
    });
    team.Phase([&](int t) {
      for (int i = t; i < c; i += kThreads) {
        const float v = LoadOne<Team, kType>(x + static_cast<uint64_t>(i) * kElementBytes);
        const float position = StatPosition<kBits>(v, mu, inverse);
        const uint32_t bin = StatBin<kBits>(position);  // of NaN too, if the mean is
        const int place = t / kWarp * kBins + static_cast<int>(bin);
        Team::Add(&sums->units[place], static_cast<uint64_t>(StatUnits<kBits>(position, bin)));
        Team::Add(&sums->count[place], 1u);
      }
    });
    team.Phase([&](int t) {
      for (int bin = t; bin < kBins; bin += kThreads) {
        uint64_t units = 0, count = 0;
        for (int place = bin; place < kPlaces; place += kBins) {
          units += sums->units[place];
          count += sums->count[place];
        }
        if (count == 0) continue;
        Team::Add(&run.units[table * kBins + static_cast<uint64_t>(bin)], units);
        Team::Add(&run.counts[table * kBins + static_cast<uint64_t>(bin)], count);
      }
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
