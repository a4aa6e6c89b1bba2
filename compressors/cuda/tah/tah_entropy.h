#pragma once

#include <cmath>

#include "compressors/cuda/team/elements.h"

// The entropy of a tile, rounded as LoopEntropy and PLog2P (loops.h) round it, without their two
// divisions: a quotient in IEEE's rounding is a product with a reciprocal and one correction.
namespace longhaul {

// What makes |x| its share p = |x| / total: p = |x| scale / divisor, with scale a power of two that
// brings the total to [2^24, 2^25). Then nothing that p >= 2^-126 depends on is subnormal. A total
// beyond fp32 makes all shares 0.
struct ShareScale {
  float scale, divisor, inverse;  // inverse = 1 / divisor, rounded
};
template <class Team>
LONGHAUL_TEXT ShareScale ScaleOfShares(float total) {
  total = total + 1e-30f;
  const uint32_t exponent = BitsOf(total) >> 23;
  if (exponent >= 255) return {0.0f, 0x1p24f, 0x1p-24f};
  const float scale = FromBits((2 * 127 + 24 - exponent) << 23);
  const float divisor = total * scale;
  // Newton's step rounds to nearest but for the one mantissa of ones alone (Markstein 1990).
  const float r = Team::Reciprocal(divisor);
  const float inverse = fmaf(r, fmaf(-divisor, r, 1.0f), r);
  return {scale, divisor, divisor == 0x1.fffffep24f ? 0x1.000002p-25f : inverse};
}

// x / total, x not negative. With the reciprocal rounded to nearest the corrected product is the
// quotient rounded to nearest (Markstein 1990).
LONGHAUL_TEXT float ShareOf(float x, const ShareScale& by) {
  const float scaled = x * by.scale;
  const float q = scaled * by.inverse;
  return fmaf(fmaf(-by.divisor, q, scaled), by.inverse, q);
}

// (m - 1) / (m + 1) for m in [1, 2). Either float around 1 / (m + 1) does for a reciprocal: tried
// for all 2^23 of m (cuda_host_test.cc).
template <class Team>
LONGHAUL_TEXT float AtanhArgument(float m) {
  const float above = m + 1.0f, below = m - 1.0f;
  const float r = Team::Reciprocal(above);
  const float q = below * r;
  return fmaf(fmaf(-above, q, below), r, q);
}

// PLog2P, but -0 for what counts as 0.
template <class Team>
LONGHAUL_TEXT float ShareLog2(float p) {
  const uint32_t bits = BitsOf(p);
  const float t = AtanhArgument<Team>(FromBits((bits & 0x007FFFFF) | 0x3F800000));
  const float t2 = t * t;
  float series = 1.0f / 9 * t2 + 1.0f / 7;
  series = series * t2 + 1.0f / 5;
  series = series * t2 + 1.0f / 3;
  series = series * t2 + 1.0f;
  const float exponent = FromBits(0x4B000000 | bits >> 23) - (8388608.0f + 127);
  const float log2 = series * t * 2.88539008f + exponent;
  return Team::TimesFlushed(p, log2);
}

}  // namespace longhaul
