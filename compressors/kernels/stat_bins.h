#pragma once

#include <utility>

#include "compressors/kernels/loops.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/kernels/stat_units.h"
#include "compressors/numbers/tree_sum.h"

// How elements get their codes and are added to their bins (stat_units.h): one by one, and, with
// few bins, over lanes. Units are whole numbers, so both give the same sums. What this asks of
// lanes is in avx2/byte_planes.h and avx512/byte_planes.h.
namespace longhaul {

// An element's code; it is added to its bin.
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

// Elements outside of all bins, few of many: over lanes the outermost bins get the low bits of
// their positions alone, and here what is missing.
template <int kBits>
class Outliers {
 public:
  LONGHAUL_INLINE Outliers() {}
  // The elements at first + place(j) for the bits j of `mask`, of which there may be none.
  LONGHAUL_INLINE void Add(size_t first, uint64_t mask) {
    groups_[count_] = {mask, first};
    count_ += mask != 0;
  }
  template <class Place>
  LONGHAUL_INLINE void AddTo(BinSums& sums, const float* x, float mu, float inverse,
                             Place place) const {
    using G = StatGrid<kBits>;
    for (size_t g = 0; g < count_; ++g) {
      uint64_t mask = groups_[g].mask;
      do {
        const size_t i = groups_[g].first + place(static_cast<size_t>(__builtin_ctzll(mask)));
        mask &= mask - 1;
        const float position = StatPosition<kBits>(x[i], mu, inverse);
        const uint32_t bin = StatBin<kBits>(position);
        const uint32_t added = BitsOf(ClampPositive(position, G::kLowest, G::kHighest));
        sums.units[bin] += StatUnits<kBits>(position, bin) - int64_t{added & G::kUnitMask};
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

// Bins first + j find their elements among `groups` of planes.
template <class L, uint32_t... j>
LONGHAUL_INLINE void AddPlanes(const typename L::Planes* planes, size_t groups, uint32_t first,
                               BinSums& sums, std::integer_sequence<uint32_t, j...>) {
  typename L::OneBin bins[] = {typename L::OneBin(first + j)...};
  for (size_t g = 0; g < groups; ++g) {
    const typename L::Planes group = planes[g];
    (bins[j].Add(group), ...);
  }
  ((sums.units[first + j] += bins[j].Units()), ...);
  ((sums.count[first + j] += bins[j].Count()), ...);
}

// Few bins: units and bins as planes of bytes, in which every bin finds its elements by comparing
// as many codes at once as a vector has bytes. Answers how many elements are done.
template <class L, int kBits>
LONGHAUL_INLINE size_t CodesOfFewBins(const float* x, size_t n, float mu, float inverse,
                                      std::byte* codes, BinSums& sums) {
  using G = StatGrid<kBits>;
  using U = typename L::U;
  constexpr size_t kGroup = 4 * L::kWidth;
  typename L::Planes planes[kSumChunk / kGroup];
  Outliers<kBits> outliers;
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    U positions[4];
    U other = L::Zero();  // bits in which some position is not one from kLowest to kHighest
    PrefetchLines(x + i + kSumChunk, 4 * kGroup);
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
    const U clamped = L::ClampBytes(group.bins, kFirst, kFirst + G::kBins - 1);
    outliers.Add(i, L::DifferentBytes(clamped, group.bins));
    group.bins = L::And(clamped, L::SplatBits((G::kBins - 1) * 0x01010101u));
    L::template StoreInOrder<kBits>(group.bins, codes + i * kBits / 8);
  }
  constexpr uint32_t kAtOnce = G::kBins < L::kBinsAtOnce ? G::kBins : L::kBinsAtOnce;
  for (uint32_t b = 0; b < G::kBins; b += kAtOnce) {
    AddPlanes<L>(planes, i / kGroup, b, sums, std::make_integer_sequence<uint32_t, kAtOnce>());
  }
  outliers.AddTo(
      sums, x, mu, inverse,
      [](size_t byte) __attribute__((always_inline)) { return L::PlaceOfByte(byte); });
  return i;
}

}  // namespace longhaul
