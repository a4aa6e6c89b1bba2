#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

// Mean and width of the bins of the statistical quantizer (statistical.h), from one reading of the
// elements: sums of x - pivot and of its square, the pivot being the mean of the first few.
namespace longhaul {

constexpr size_t kPivotElements = 64;

// The sum over a table of (x - mu)^2, from those about the pivot. Negative when most of it would
// cancel, as where the first elements are far from all others: it must be measured then.
LONGHAUL_INLINE double SquaresAboutMean(double sum, double squares, uint64_t n) {
  const double rest = squares - sum * (sum / static_cast<double>(n));
  return rest < squares / 4 ? -1.0 : rest;
}
LONGHAUL_INLINE float StatMean(float pivot, double sum, uint64_t n) {
  return static_cast<float>(static_cast<double>(pivot) + sum / static_cast<double>(n));
}
// 1 / the bins' width, which is 6 sigma / bins, or 1 where sigma says nothing.
LONGHAUL_INLINE float StatInverse(double squares, uint64_t n, int bins) {
  const auto sigma = static_cast<float>(sqrt(squares / static_cast<double>(n - 1)));
  const float step = 6 * sigma / static_cast<float>(bins);
  return 1.0f / (step >= 0x1p-126f && step < FromBits(kInfBits) ? step : 1.0f);
}

}  // namespace longhaul
