#pragma once

#include <type_traits>

#include "compressors/cuda/stat/stat_sums.h"
#include "compressors/cuda/team/code_words.h"

namespace longhaul {

// A team works on 4096 elements of a table, a thread on twice eight. What the codes stand for is
// made once for all of them, as it will lie in the tensor.
template <int kBits, DType kType>
struct DecodeStatKernel {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kThreads = 8 * kWarp;
  static constexpr int kRounds = 2;
  static constexpr int kRound = kThreads * kPerThread;
  static constexpr uint64_t kElements = uint64_t{kRounds} * kRound;
  static_assert(kBins <= kThreads);
  using Codes =
      std::conditional_t<kBits == 2, uint16_t, std::conditional_t<kBits == 4, uint32_t, uint64_t>>;
  struct Place {
    uint32_t values[kBins];
  };
  struct Loaded {
    Codes codes[kRounds];
  };

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t PerTable() const {
    return (run.elements + kElements - 1) / kElements;
  }
  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables * PerTable(); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    // Teams that are whole blocks are fewer than 2^31.
    const auto index = static_cast<uint32_t>(team.index());
    const uint64_t table = index / static_cast<uint32_t>(PerTable());
    const uint64_t first = (index - table * PerTable()) * kElements, left = run.elements - first;
    std::byte* x = run.x + (table * run.elements + first) * kStatBytes<kType>;
    const std::byte* codes = run.codes + table * run.code_bytes + first / kPerThread * kBits;
    const bool whole = left >= kElements && Aligned(x, 16) && Aligned(codes, 8);
    typename Team::template Shared<Place> place;
    typename Team::template Own<Loaded> loaded;
    team.Phase([&](int t) {
      if (whole) {
        LoadCodes<true, Team>(codes, t, left, loaded[t]);
      } else {
        LoadCodes<false, Team>(codes, t, left, loaded[t]);
      }
      if (t < kBins) place->values[t] = Value<Team>(StatHead(run, table), t);
    });
    typename Team::template Own<RawEight<kType>> raw[kRounds];
    team.Phase([&](int t) {
      LONGHAUL_UNROLL
      for (int i = 0; i < kRounds; ++i) LookUp(place->values, loaded[t].codes[i], raw[i][t]);
    });
    LONGHAUL_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      std::byte* to = x + static_cast<uint64_t>(i) * kRound * kStatBytes<kType>;
      if (whole) {
        StoreStrip<kType>(team, raw[i], to);
      } else {
        team.Each([&](int t) {
          StoreSome<Team, kType>(raw[i][t], Count(i, t, left),
                                 to + static_cast<uint64_t>(t * kPerThread) * kStatBytes<kType>);
        });
      }
    }
  }

  template <bool kWhole, class Team>
  LONGHAUL_TEXT static void LoadCodes(const std::byte* codes, int t, uint64_t left,
                                      Loaded& loaded) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      const std::byte* from = codes + (i * kThreads + t) * kBits;
      if (kWhole) {
        loaded.codes[i] = Team::template Load<Codes>(from);
      } else {
        const int bytes = (Count(i, t, left) * kBits + 7) / 8;
        loaded.codes[i] = static_cast<Codes>(LoadBytes<Team>(from, bytes));
      }
    }
  }
  LONGHAUL_TEXT static int Count(int i, int t, uint64_t left) {
    return CountBelow(static_cast<uint64_t>(i * kRound + t * kPerThread), left);
  }
  template <class Team>
  LONGHAUL_TEXT static uint32_t Value(const std::byte* head, int bin) {
    const float mu = Team::template Load<float>(head);
    const float x = Team::template Load<float>(head + 4 + 4 * bin) + mu;
    if constexpr (kType == DType::kF32) return BitsOf(x);
    return kType == DType::kBF16 ? F32ToBf16Clamped(x) : F32ToF16Clamped(x);
  }
  LONGHAUL_TEXT static void LookUp(const uint32_t* values, Codes codes, RawEight<kType>& raw) {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const uint32_t value = values[codes >> (kBits * e) & (kBins - 1)];
      if constexpr (kType == DType::kF32) {
        raw.quad[e / 4].word[e % 4] = value;
      } else {
        uint32_t& word = raw.quad[0].word[e / 2];
        word = e % 2 == 0 ? value : word | value << 16;
      }
    }
  }
};

}  // namespace longhaul
