#pragma once

#include <cstdint>

#include "compressors/numbers/small_floats.h"

// Where an element stands among the bins of the statistical quantizer (families/statistical.cc), and what
// bins add up to: whole numbers of units, so that any order of additions gives the same table.
namespace longhaul {

// Positions are shifted to where neighbouring floats are a unit apart, so that the addition rounds
// to units and the bits of the sum hold the bin and, below it, the place in the bin.
template <int kBits>
struct StatGrid {
  static constexpr uint32_t kBins = 1u << kBits;
  // Units per bin: 2^this. With few bins 256 are fine enough by far, and make a byte.
  static constexpr int kUnitBits = kBits == 8 ? 15 : 8;
  static constexpr float kUnit = 1.0f / static_cast<float>(1 << kUnitBits);
  // Floats from kLowest to 256 above it are a unit apart; the bins begin at kFirst.
  static constexpr float kLowest = 0x1p23f * kUnit;
  static constexpr float kFirst = kBits == 8 ? kLowest : kLowest + 128;
  static constexpr float kLast = kFirst + static_cast<float>(kBins) - kUnit;
  // The mean stands in the middle of bin 2^(k-1).
  static constexpr float kMean = kFirst + static_cast<float>(kBins / 2) + 0.5f;
};

// low, high: above 0, where floats are ordered as their bits are. So there is no branch, which on
// whether x is above or below a processor would guess wrong half of the time.
LONGHAUL_INLINE float ClampPositive(float x, float low, float high) {
  const auto bits = static_cast<int32_t>(BitsOf(x)), least = static_cast<int32_t>(BitsOf(low)),
             most = static_cast<int32_t>(BitsOf(high));
  const int32_t above = bits < least ? least : bits;
  return FromBits(static_cast<uint32_t>(above > most ? most : above));
}

// inverse: 1 / the bins' width.
template <int kBits>
LONGHAUL_INLINE float StatPosition(float x, float mu, float inverse) {
  return (x - mu) * inverse + StatGrid<kBits>::kMean;
}

// Elements beyond the outermost bins belong to those.
template <int kBits>
LONGHAUL_INLINE uint32_t StatBin(float position) {
  using G = StatGrid<kBits>;
  return BitsOf(ClampPositive(position, G::kFirst, G::kLast)) >> G::kUnitBits & (G::kBins - 1);
}

// The distance to the lower edge of the bin. No element lies further than sqrt(n) sigma from the
// mean, so it is below 2^40 with 2^33 elements, and the sum of all below 2^55. To the nearest,
// ties to even.
template <int kBits>
LONGHAUL_INLINE int64_t StatUnits(float position, uint32_t bin) {
  using G = StatGrid<kBits>;
  const float inside = position - (G::kFirst + static_cast<float>(bin));
  const double shifted =
      static_cast<double>(inside * static_cast<float>(1 << G::kUnitBits)) + 0x1.8p52;
  int64_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof(bits));
  return bits - 0x4338000000000000;
}

// The conversions of fp64, in steps that AVX2 has for vectors too: halves that stand in the low
// bits of 2^52 and 2^84. The first is exact below 2^52, the second rounds once.
LONGHAUL_INLINE double FromBits64(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
LONGHAUL_INLINE double CountToDouble(uint64_t count) {
  return FromBits64(count | 0x4330000000000000) - 0x1p52;
}
LONGHAUL_INLINE double UnitsToDouble(int64_t units) {
  const auto x = static_cast<uint64_t>(units);
  const double low = FromBits64((x & 0xFFFFFFFF) | 0x4330000000000000);
  const double high = FromBits64((x >> 32) ^ 0x4530000080000000);  // the sign bit counts upwards
  return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}

// The mean of x - mu in a bin, 0 if it is empty. width: 1 / inverse, in fp64. Without branches, so
// that compilers do many bins at once.
template <int kBits>
LONGHAUL_INLINE float StatOffset(int32_t bin, int64_t units, uint64_t count, double width) {
  using G = StatGrid<kBits>;
  const uint64_t some = count != 0, n = count + 1 - some;
  const double mean = UnitsToDouble(units) / CountToDouble(n);
  const double edge = static_cast<double>(bin) - (static_cast<double>(G::kBins / 2) + 0.5);
  const double at = edge + mean * static_cast<double>(G::kUnit);
  return FromBits(BitsOf(static_cast<float>(at * width)) & static_cast<uint32_t>(0 - some));
}

}  // namespace longhaul
