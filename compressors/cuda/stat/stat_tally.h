#pragma once

#include <cmath>
#include <type_traits>

#include "compressors/cuda/stat/stat_sums.h"
#include "compressors/kernels/stat_units.h"

// How a warp gives a chunk's elements their codes and finds what they add up to, bin by bin.
namespace longhaul {

// A bin has a word per copy in shared memory, so that lanes seldom meet: its elements are counted
// above the sum of their units. Each lane adds to the copy of its own number, modulo kCopies.
template <int kBits>
struct StatWords {
  using Grid = StatGrid<kBits>;
  static constexpr int kBins = 1 << kBits;
  static constexpr int kCopies = kBits == 8 ? 4 : kWarp;
  static constexpr int kCountAt = kBits == 8 ? 23 : 24;
  static constexpr uint32_t kSumMask = (1u << kCountAt) - 1;
  // What the words have room for until they are emptied.
  static constexpr int kPart = kBits == 8 ? 1024 : static_cast<int>(kSumChunk);
  static constexpr int kParts = static_cast<int>(kSumChunk) / kPart;
  static_assert(uint64_t{kPart / kCopies} * Grid::kUnitMask <= kSumMask);
  static_assert(kPart / kCopies < 1 << (32 - kCountAt));

  uint32_t word[kBins * kCopies];
};

// Inf and NaN lie any number of units away until they are refused: their sums may wrap.
LONGHAUL_TEXT int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// What the elements outside of all bins add to these besides what the words have.
struct StatBeyond {
  int64_t low, high;
};

// Bins that a thread empties: of few bins, several threads share each; of many, a thread has every
// 32nd. Sums of all emptyings, of 2^16 elements at most.
template <int kBits>
struct StatTally {
  static constexpr int kBins = 1 << kBits;
  static constexpr int kSharers = kBins < kWarp ? kWarp / kBins : 1;
  static constexpr int kOwned = kBins < kWarp ? 1 : kBins / kWarp;

  LONGHAUL_TEXT static int Bin(int i, int lane) { return lane / kSharers + i * kWarp; }

  uint32_t units[kOwned], counts[kOwned];
};

// A chunk, or what is left of a table where that is less. Alike in all threads of a warp.
struct StatChunk {
  const std::byte* x;
  std::byte* codes;
  int elements;
  bool whole;  // all of it, aligned for wide loads and stores
  float mu, inverse;
};

template <int kBits, DType kType>
LONGHAUL_TEXT StatChunk StatChunkAt(const StatRun& run, uint64_t table, uint64_t first) {
  StatChunk chunk;
  chunk.x = run.x + (table * run.elements + first) * kStatBytes<kType>;
  chunk.codes = run.codes + table * run.code_bytes + first / kPerThread * kBits;
  const uint64_t left = run.elements > first ? run.elements - first : 0;
  chunk.elements = static_cast<int>(left < kSumChunk ? left : kSumChunk);
  chunk.whole = left >= kSumChunk && Aligned(chunk.x, 16) && Aligned(chunk.codes, 8);
  return chunk;
}

// Of the first `count` of eight positions, of which there mostly is only one.
template <int kBits>
LONGHAUL_TEXT void JoinBeyond(const float* position, int count, StatBeyond& beyond) {
  using G = StatGrid<kBits>;
  const auto add = [&](float at) {
    if (at < G::kFirst) beyond.low = WrappingSum(beyond.low, StatUnits<kBits>(at, 0));
    if (at > G::kLast) {
      const int64_t units = StatUnits<kBits>(at, G::kBins - 1);
      beyond.high = WrappingSum(beyond.high, WrappingSum(units, -int64_t{G::kUnitMask}));
    }
  };
  float some = G::kFirst;
  int found = 0;
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    if (e >= count || (position[e] >= G::kFirst && position[e] <= G::kLast)) continue;
    some = position[e];
    ++found;
  }
  if (found <= 1) return add(some);
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    if (e < count) add(position[e]);
  }
}

// Codes of eight elements, which are added to their bins. words: at the lane's copy.
template <int kBits, bool kWhole, class Team>
LONGHAUL_TEXT uint64_t JoinEight(const Eight& v, int count, float mu, float inverse,
                                 uint32_t* words, StatBeyond& beyond) {
  using G = StatGrid<kBits>;
  using W = StatWords<kBits>;
  // Held between the first and the last position, bits above the units are this plus the bin.
  constexpr uint32_t kFirst = BitsOf(G::kFirst) >> G::kUnitBits;
  float position[kPerThread];
  uint32_t packed[2] = {0, 0};
  bool any_beyond = false;
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    position[e] = StatPosition<kBits>(v.x[e], mu, inverse);
    // Of NaN these make kFirst, so that it has a bin too.
    const float held = fminf(fmaxf(position[e], G::kFirst), G::kLast);
    if (!kWhole && e >= count) continue;
    const uint32_t bits = BitsOf(held), bin = (bits >> G::kUnitBits) - kFirst;
    Team::Add(&words[bin * W::kCopies], (bits & G::kUnitMask) | 1u << W::kCountAt);
    packed[kBits * e / 32] += bin << (kBits * e % 32);
    any_beyond |= held != position[e];
  }
  if (any_beyond) JoinBeyond<kBits>(position, kWhole ? kPerThread : count, beyond);
  return packed[0] | uint64_t{packed[1]} << 32;
}

// A thread's elements of the next strips of a chunk, on their way from memory while it works on
// those before.
template <DType kType>
struct StatStrips {
  static constexpr int kStrips = kType == DType::kF32 ? 1 : 2;
  static constexpr int kPerChunk = static_cast<int>(kSumChunk) / kStrip;

  LONGHAUL_TEXT static int At(int strip, int t) { return strip * kStrip + t % kWarp * kPerThread; }
  LONGHAUL_TEXT static int Count(const StatChunk& chunk, int strip, int t) {
    const int left = chunk.elements - At(strip, t);
    return left > kPerThread ? kPerThread : left < 0 ? 0 : left;
  }
  template <bool kWhole, class Team>
  LONGHAUL_TEXT void Load(const StatChunk& chunk, int first, int t) {
    if (first >= kPerChunk) return;
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      const std::byte* from = chunk.x + static_cast<uint64_t>(At(first + i, t)) * kStatBytes<kType>;
      if (kWhole) {
        LoadEight<Team, kType>(from, raw[i]);
      } else {
        LoadSome<Team, kType>(from, Count(chunk, first + i, t), raw[i]);
      }
    }
  }

  RawEight<kType> raw[kStrips];
};

// Thread t's share of a part of a chunk.
template <int kBits, DType kType, bool kWhole, class Team>
LONGHAUL_TEXT void CodePart(const StatChunk& chunk, int part, int t, StatStrips<kType>& next,
                            StatWords<kBits>& words, StatBeyond& beyond) {
  using W = StatWords<kBits>;
  using Strips = StatStrips<kType>;
  using Codes =
      std::conditional_t<kBits == 2, uint16_t, std::conditional_t<kBits == 4, uint32_t, uint64_t>>;
  constexpr int kHere = W::kPart / kStrip;
  uint32_t* mine = &words.word[t % W::kCopies];
  const int full = (part + 1) * kHere, filled = (chunk.elements + kStrip - 1) / kStrip;
  const int last = kWhole || filled > full ? full : filled;
  for (int strip = part * kHere; strip < last; strip += Strips::kStrips) {
    const Strips strips = next;
    next.template Load<kWhole, Team>(chunk, strip + Strips::kStrips, t);
    LONGHAUL_UNROLL
    for (int i = 0; i < Strips::kStrips; ++i) {
      Eight v;
      Widen<kType>(strips.raw[i], v);
      const int count = Strips::Count(chunk, strip + i, t);
      const uint64_t packed =
          JoinEight<kBits, kWhole, Team>(v, count, chunk.mu, chunk.inverse, mine, beyond);
      std::byte* to = chunk.codes + Strips::At(strip + i, t) / kPerThread * kBits;
      if (kWhole) {
        Team::Store(static_cast<Codes>(packed), to);
      } else {
        StoreBytes<Team>(packed, (count * kBits + 7) / 8, to);
      }
    }
  }
}

// Thread t takes what stands in the words of its bins, which are then empty.
template <int kBits>
LONGHAUL_TEXT void EmptyWords(int t, StatWords<kBits>& words, StatTally<kBits>& tally) {
  using W = StatWords<kBits>;
  using T = StatTally<kBits>;
  const int lane = t % kWarp;
  // Sharers of a bin have copies side by side, and begin where they meet nobody in a bank.
  constexpr int kTaken = W::kCopies / T::kSharers;
  const int first = lane % T::kSharers * kTaken;
  LONGHAUL_UNROLL
  for (int i = 0; i < T::kOwned; ++i) {
    const int bin = T::Bin(i, lane);
    LONGHAUL_UNROLL
    for (int j = 0; j < kTaken; ++j) {
      const int copy = T::kSharers == 1 ? j : first + (j + bin) % kTaken;
      uint32_t& word = words.word[bin * W::kCopies + copy];
      tally.units[i] += word & W::kSumMask;
      tally.counts[i] += word >> W::kCountAt;
      word = 0;
    }
  }
}

// A warp's chunk each; `words` are those of all warps, empty before and after.
template <int kBits, DType kType, class Team, class Shared>
LONGHAUL_TEXT void CodeChunks(Team& team, const typename Team::template Own<StatChunk>& chunk,
                              Shared& shared, typename Team::template Own<StatTally<kBits>>& tally,
                              typename Team::template Own<StatBeyond>& beyond) {
  typename Team::template Own<StatStrips<kType>> next;
  team.Each([&](int t) {
    if (chunk[t].whole) {
      next[t].template Load<true, Team>(chunk[t], 0, t);
    } else {
      next[t].template Load<false, Team>(chunk[t], 0, t);
    }
  });
  for (int part = 0; part < StatWords<kBits>::kParts; ++part) {
    team.Phase([&](int t) {
      StatWords<kBits>& words = shared->words[t / kWarp];
      if (chunk[t].whole) {
        CodePart<kBits, kType, true, Team>(chunk[t], part, t, next[t], words, beyond[t]);
      } else {
        CodePart<kBits, kType, false, Team>(chunk[t], part, t, next[t], words, beyond[t]);
      }
    });
    team.Phase([&](int t) { EmptyWords<kBits>(t, shared->words[t / kWarp], tally[t]); });
  }
}

// After all chunks: every thread's tally is that of its bins, all have all that is beyond.
template <int kBits, class Team>
LONGHAUL_TEXT void JoinTallies(Team& team, typename Team::template Own<StatTally<kBits>>& tally,
                               typename Team::template Own<StatBeyond>& beyond) {
  using T = StatTally<kBits>;
  Fold<T::kSharers>(team, tally, [](T a, const T& b) {
    a.units[0] += b.units[0];
    a.counts[0] += b.counts[0];
    return a;
  });
  Fold<kWarp>(team, beyond, [](const StatBeyond& a, const StatBeyond& b) {
    return StatBeyond{WrappingSum(a.low, b.low), WrappingSum(a.high, b.high)};
  });
}

}  // namespace longhaul
