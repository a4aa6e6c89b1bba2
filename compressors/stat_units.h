#pragma once

#include <cstdint>

#include "compressors/small_floats.h"

// What the statistical quantizer's bins add up to (statistical.h): elements are counted in units of
// 2^-20 of the bins' width, whole numbers, so that any order of additions gives the same table.
namespace longhaul {

constexpr float kUnitsPerBin = 0x1p20f;

// at: (x - mu) / step. No element lies further than sqrt(n) sigma from the mean, so what is rounded
// here is below 2^43 with 2^33 elements, and their sum below 2^55. To the nearest, ties to even.
LONGHAUL_INLINE int64_t RoundToUnits(float at) {
  const double shifted = static_cast<double>(at * kUnitsPerBin) + 0x1.8p52;
  int64_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof(bits));
  return bits - 0x4338000000000000;
}

// The mean of x - mu in a bin, 0 if it is empty. inverse: 1 / step.
LONGHAUL_INLINE float MeanOfBin(int64_t units, uint64_t count, float inverse) {
  if (count == 0) return 0;
  const double mean = static_cast<double>(units) / static_cast<double>(count);
  return static_cast<float>(mean / static_cast<double>(kUnitsPerBin) /
                            static_cast<double>(inverse));
}

}  // namespace longhaul
