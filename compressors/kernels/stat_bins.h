#pragma once

#include <algorithm>
#include <utility>

#include "compressors/kernels/loops.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/kernels/stat_units.h"
#include "compressors/numbers/byte_planes.h"
#include "compressors/numbers/tree_sum.h"

// How elements get their codes and join their bins (stat_units.h): one by one, and over lanes in a
// way of its own for few bins and for many. Units are whole numbers, so all give the same sums.
// What the first asks of lanes is in avx2/byte_planes.h and avx512/byte_planes.h.
namespace longhaul {

constexpr size_t kManyElements = 64;  // at once; for fewer no table of many bins is cleared

// An element's code; it joins its bin.
template <int kBits>
LONGHAUL_INLINE uint32_t StatCode(float x, float mu, float inverse, BinSums& sums) {
  const float position = StatPosition<kBits>(x, mu, inverse);
  const uint32_t bin = StatBin<kBits>(position);
  sums.units[bin] += StatUnits<kBits>(position, bin);
  ++sums.count[bin];
  return bin;
}

template <int kBits>
LONGHAUL_INLINE void PlainStatCodes(const float* x, size_t n, float mu, float inverse,
                                    std::byte* codes, BinSums& sums) {
  constexpr size_t kPerByte = 8 / kBits;
  for (size_t i = 0; i < n; i += kPerByte) {
    uint32_t byte = 0;
    for (size_t j = 0; j < kPerByte && i + j < n; ++j) {
      byte |= StatCode<kBits>(x[i + j], mu, inverse, sums) << (kBits * j);
    }
    codes[i / kPerByte] = static_cast<std::byte>(byte);
  }
}

// Elements beyond the outermost bins, few of many: over lanes they join their bins by the low bits
// of their positions alone, and get here what is missing.
template <int kBits>
class BeyondTheBins {
 public:
  // The elements at first + place(j) for the bits j of `mask`, of which there may be none.
  LONGHAUL_INLINE void Note(size_t first, uint64_t mask) {
    groups_[count_] = {mask, first};
    count_ += mask != 0;
  }
  template <class Place>
  LONGHAUL_INLINE void Join(const float* x, float mu, float inverse, Place place,
                            BinSums& sums) const {
    using G = StatGrid<kBits>;
    for (size_t g = 0; g < count_; ++g) {
      uint64_t mask = groups_[g].mask;
      do {
        const size_t i = groups_[g].first + place(static_cast<size_t>(__builtin_ctzll(mask)));
        mask &= mask - 1;
        const float position = StatPosition<kBits>(x[i], mu, inverse);
        const uint32_t bin = StatBin<kBits>(position);
        const uint32_t joined = BitsOf(HoldBetween(position, G::kLowest, G::kHighest));
        sums.units[bin] += StatUnits<kBits>(position, bin) - int64_t{joined & G::kUnitMask};
      } while (mask != 0);
    }
  }

 private:
  struct Group {
    uint64_t mask;
    size_t first;
  };
  Group groups_[kSumChunk / 8 + 1];
  size_t count_ = 0;
};

template <class L, int kBits>
LONGHAUL_INLINE typename L::F StatPositions(const float* x, float mu, float inverse) {
  const typename L::F v = L::template Load<DType::kF32>(reinterpret_cast<const std::byte*>(x));
  return L::Add(L::Mul(L::Sub(v, L::Splat(mu)), L::Splat(inverse)),
                L::Splat(StatGrid<kBits>::kMean));
}

// Bins find their elements among `groups` of planes: first + j for every j of n, and n more.
template <class L, class TwoBins, bool kFetch, class Lines, uint32_t... j>
LONGHAUL_INLINE void JoinBins(const typename L::Planes* planes, size_t groups, uint32_t first,
                              Lines& ahead, BinSums& sums, std::integer_sequence<uint32_t, j...>) {
  constexpr uint32_t n = sizeof...(j);
  constexpr size_t kGroup = 4 * L::kWidth, kMost = TwoBins::kMostGroups;
  TwoBins pairs[n];
  (pairs[j].Choose(first + j, first + n + j), ...);
  for (size_t g = 0; g < groups;) {
    for (const size_t end = groups - g < kMost ? groups : g + kMost; g < end; ++g) {
      if (kFetch && g * kGroup % 64 == 0) ahead.Fetch();
      const typename L::Planes group = planes[g];
      (pairs[j].Join(group), ...);
    }
    (pairs[j].Settle(), ...);
  }
  const auto add = [&](uint32_t bin, const TwoBinSums& two) __attribute__((always_inline)) {
    for (uint32_t k = 0; k < 2; ++k) {
      sums.units[bin + k * n] += two.units[k];
      sums.count[bin + k * n] += two.count[k];
    }
  };
  (add(first + j, pairs[j].Totals()), ...);
}

// A chunk's next one is fetched evenly over all that is done to a chunk: memory then works all the
// time, and at no time stands in the way of what is needed now.
template <int kBits, Readers kReaders>
struct FetchPlan {
  // Quarters of the chunk that are fetched before, with the codes, and while bins find elements.
  static constexpr size_t kBefore = kReaders == Readers::kTwo ? 1 : 0;
  static constexpr size_t kInBins = kReaders == Readers::kTwo ? 1 : kBits == 4 ? 2 : 0;
  static constexpr size_t kWithCodes = 4 - kBefore - kInBins;
};

// Few bins: units and bins as planes of bytes, in which every bin finds its elements by comparing
// as many codes at once as a vector has bytes. Answers how many elements are done.
template <class L, int kBits, Readers kReaders, bool kToFirst>
LONGHAUL_INLINE size_t CodesOfFewBins(const float* x, size_t n, float mu, float inverse,
                                      std::byte* codes, BinSums& sums) {
  using G = StatGrid<kBits>;
  using U = typename L::U;
  using Fetch = FetchPlan<kBits, kReaders>;
  constexpr size_t kGroup = 4 * L::kWidth;
  static_assert(kGroup * Fetch::kWithCodes % 64 == 0);
  LinesAhead<kToFirst> ahead(x, kSumChunk + n / 4 * Fetch::kBefore);
  typename L::Planes planes[kSumChunk / kGroup];
  BeyondTheBins<kBits> beyond;
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    U positions[4];
    U other = L::Zero();  // bits in which some position is not one from kLowest to kHighest
    for (size_t line = 0; line < kGroup * Fetch::kWithCodes / 64; ++line) ahead.Fetch();
    for (size_t k = 0; k < 4; ++k) {
      positions[k] = L::Bits(StatPositions<L, kBits>(x + i + k * L::kWidth, mu, inverse));
      other = L::OrXor(other, positions[k], L::SplatBits(BitsOf(G::kLowest)));
    }
    if (L::AnyBits(other, ~(BitsOf(G::kLowest) ^ BitsOf(G::kHighest)))) [[unlikely]] {
      for (U& p : positions) {
        p = L::Bits(L::Min(L::Max(L::FromBits(p), L::Splat(G::kLowest)), L::Splat(G::kHighest)));
      }
    }
    typename L::Planes& group = planes[i / kGroup];
    group = L::SplitBytes(positions);
    static_assert(G::kUnitBits == 8);
    constexpr uint32_t kFirst = BitsOf(G::kFirst) >> 8 & 0xFF;
    const U held = L::HoldBytes(group.bins, kFirst, kFirst + G::kBins - 1);
    beyond.Note(i, L::DifferentBytes(held, group.bins));
    group.bins = L::And(held, L::SplatBits((G::kBins - 1) * 0x01010101u));
    L::template StoreInOrder<kBits>(group.bins, codes + i * kBits / 8);
  }
  constexpr uint32_t kAtOnce = std::min(G::kBins, L::kBinsAtOnce);
  constexpr std::make_integer_sequence<uint32_t, kAtOnce / 2> kThese;
  using TwoBins = typename L::template TwoBins<G::kBins>;
  JoinBins<L, TwoBins, (Fetch::kInBins > 0)>(planes, i / kGroup, 0, ahead, sums, kThese);
  for (uint32_t b = kAtOnce; b < G::kBins; b += kAtOnce) {
    JoinBins<L, TwoBins, (Fetch::kInBins > 1)>(planes, i / kGroup, b, ahead, sums, kThese);
  }
  beyond.Join(
      x, mu, inverse, [](size_t byte) { return L::PlaceOfByte(byte); }, sums);
  return i;
}

// For every one of many bins two words, which take turns so that neighbours in one bin do not wait
// for each other. A word holds a count above a sum of units, and has place for kSumChunk of both.
class BinWords {
 public:
  static constexpr int kCountAt = 28;
  static constexpr uint32_t kOne = 1u << kCountAt;

  // Elements i .. i + 7, their bins and their units with kOne. kAtOnce: one load for eight bins;
  // else one for each, as the compiler must think that every sum may change them.
  template <bool kAtOnce>
  LONGHAUL_INLINE void AddEight(const std::byte* bins, const uint32_t* units) {
    if constexpr (kAtOnce) {
      uint64_t eight;
      __builtin_memcpy(&eight, bins, 8);
      for (size_t t = 0; t < 8; ++t) words_[t % 2][eight >> (8 * t) & 0xFF] += units[t];
    } else {
      for (size_t t = 0; t < 8; ++t) words_[t % 2][static_cast<size_t>(bins[t])] += units[t];
    }
  }
  LONGHAUL_INLINE void AddTo(BinSums& sums) const {
    for (size_t b = 0; b < 256; ++b) {
      const uint64_t word = words_[0][b] + words_[1][b];
      sums.units[b] += static_cast<int64_t>(word & (kOne - 1));
      sums.count[b] += word >> kCountAt;
    }
  }

 private:
  alignas(64) uint64_t words_[2][256] = {};
};

template <class L, int kBits>
LONGHAUL_INLINE typename L::F HeldInBins(typename L::F position) {
  using G = StatGrid<kBits>;
  return L::Min(L::Max(position, L::Splat(G::kFirst)), L::Splat(G::kLast));
}

// Codes and what BinWords adds for four vectors of elements; answers whether one is beyond the
// bins.
template <class L, int kBits>
LONGHAUL_INLINE bool PrepareForWords(const float* x, float mu, float inverse, std::byte* codes,
                                     uint32_t* units) {
  using G = StatGrid<kBits>;
  typename L::U bins[4], moved = L::Zero();
  for (size_t k = 0; k < 4; ++k) {
    const typename L::F at = StatPositions<L, kBits>(x + k * L::kWidth, mu, inverse);
    const typename L::F held = HeldInBins<L, kBits>(at);
    moved = L::OrXor(moved, L::Bits(at), L::Bits(held));
    bins[k] = L::template ShiftRight<G::kUnitBits>(L::Bits(held));
    const typename L::U with_one =
        L::AndOr(L::Bits(held), L::SplatBits(G::kUnitMask), L::SplatBits(BinWords::kOne));
    L::template Store<DType::kF32>(L::FromBits(with_one),
                                   reinterpret_cast<std::byte*>(units + k * L::kWidth));
  }
  L::StoreFirstBytes(bins, codes);
  return L::AnyBits(moved, ~uint32_t{0});
}

// The groups of four vectors in which elements are beyond the bins.
template <class L, int kBits>
class GroupsBeyond {
 public:
  static constexpr size_t kGroup = 4 * L::kWidth;

  LONGHAUL_INLINE void Note(size_t first, bool some) {
    first_[count_] = first;
    count_ += some;
  }
  LONGHAUL_INLINE void Join(const float* x, float mu, float inverse, BinSums& sums) const {
    BeyondTheBins<kBits> beyond;
    for (size_t g = 0; g < count_; ++g) {
      uint64_t mask = 0;
      for (size_t k = 0; k < 4; ++k) {
        const typename L::F at =
            StatPositions<L, kBits>(x + first_[g] + k * L::kWidth, mu, inverse);
        mask |= uint64_t{L::DifferentLanes(at, HeldInBins<L, kBits>(at))} << k * L::kWidth;
      }
      beyond.Note(first_[g], mask);
    }
    beyond.Join(
        x, mu, inverse, [](size_t lane) { return lane; }, sums);
  }

 private:
  size_t first_[kSumChunk / kGroup + 1];
  size_t count_ = 0;
};

// Many bins: one addition per element. What lanes do for the next kManyElements runs beside the
// additions; or for a whole chunk, before them.
template <class L, int kBits, bool kApart>
LONGHAUL_INLINE size_t CodesOfManyBins(const float* x, size_t n, float mu, float inverse,
                                       std::byte* codes, BinSums& sums) {
  static_assert(kBits == 8);
  using Beyond = GroupsBeyond<L, kBits>;
  constexpr size_t kGroup = Beyond::kGroup, kBatch = kApart ? kSumChunk : kManyElements;
  constexpr size_t kBatches = kApart ? 1 : 2;
  static_assert(kManyElements % kGroup == 0 && kBatch % kManyElements == 0);
  BinWords words;
  alignas(64) uint32_t units[kBatches][kBatch];
  Beyond beyond;
  const size_t end = n / kManyElements * kManyElements;
  const auto batch_end = [end](size_t first) __attribute__((always_inline)) {
    return kApart ? end : first + kBatch;
  };
  const auto prepare = [&](size_t first) __attribute__((always_inline)) {
    uint32_t* to = units[first / kBatch % kBatches];
    for (size_t i = first; i < batch_end(first); i += kGroup, to += kGroup) {
      beyond.Note(i, PrepareForWords<L, kBits>(x + i, mu, inverse, codes + i, to));
    }
  };
  if (end > 0) prepare(0);
  for (size_t first = 0; first < end; first += kBatch) {
    if (first + kBatch < end) prepare(first + kBatch);
    const uint32_t* from = units[first / kBatch % kBatches];
    for (size_t i = first; i < batch_end(first); i += 8, from += 8) {
      if (i % 16 == 0) PrefetchNextChunk(x + i);
      words.template AddEight<kApart>(codes + i, from);
    }
  }
  words.AddTo(sums);
  beyond.Join(x, mu, inverse, sums);
  return end;
}

}  // namespace longhaul
