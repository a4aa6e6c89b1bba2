#pragma once

#include "compressors/cuda/block_arithmetic.h"
#include "compressors/cuda/code_words.h"
#include "compressors/cuda/stat_sums.h"

namespace longhaul {

LONGHAUL_TEXT uint32_t StatCode(float x, float mu, float inverse, int bins) {
  const float top = static_cast<float>(bins - 1), middle = static_cast<float>(bins) / 2;
  return static_cast<uint32_t>(RoundToInt(ClampTo((x - mu) * inverse + middle, 0.0f, top)));
}

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
          const uint32_t q = e < count ? StatCode(v.x[e], mu, inverse, 1 << kBits) : 0;
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

// The table of one tensor or row by one team. The order of additions is part of the format's
// arithmetic: for each bin, four sums take turns over the elements, each in fp64 and one after the
// other. So a thread owns one of the four sums of one bin and walks along its quarter of the
// elements; tables work side by side, elements of a table do not.
template <int kBits, DType kType>
struct StatBinsKernel {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kThreads = 4 * kBins < 64 ? 64 : 4 * kBins;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Chunk {
    float difference[kSumChunk];  // x - mu
    uint8_t code[kSumChunk];
  };
  struct Sums {
    double total[4 * kBins];
    uint64_t count[4 * kBins];
  };

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    std::byte* head = StatHead(run, team.index(), kBins);
    const float mu = Team::template Load<float>(head), inverse = run.inverse[team.index()];
    const std::byte* x = run.x + team.index() * run.elements * kElementBytes;
    typename Team::template Shared<Chunk> chunk;
    typename Team::template Own<double> total;
    typename Team::template Own<uint64_t> count;
    team.Each([&](int t) { total[t] = 0, count[t] = 0; });
    for (uint64_t first = 0; first < run.elements; first += kSumChunk) {
      const uint64_t left = run.elements - first;
      const int c = static_cast<int>(left < kSumChunk ? left : kSumChunk);
      team.Phase([&](int t) {
        for (int i = t; i < c; i += kThreads) {
          const float v =
              LoadOne<Team, kType>(x + (first + static_cast<uint64_t>(i)) * kElementBytes);
          chunk->difference[i] = v - mu;
          chunk->code[i] = static_cast<uint8_t>(StatCode(v, mu, inverse, kBins));
        }
      });
      team.Phase([&](int t) {
        for (int i = t / kBins; i < c && t < 4 * kBins; i += 4) {
          if (chunk->code[i] != t % kBins) continue;
          total[t] += static_cast<double>(chunk->difference[i]);
          ++count[t];
        }
      });
    }
    typename Team::template Shared<Sums> sums;
    team.Phase([&](int t) {
      if (t >= 4 * kBins) return;
      sums->total[t] = total[t];
      sums->count[t] = count[t];
    });
    team.Phase([&](int t) {
      if (t >= kBins) return;
      uint64_t members = 0;
      double sum = 0;
      for (int turn = 0; turn < 4; ++turn) {
        members += sums->count[turn * kBins + t];
        sum += sums->total[turn * kBins + t];
      }
      const float mean =
          members == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(members));
      Team::Store(mean, head + 4 + 4 * t);
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
