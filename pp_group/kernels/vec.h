#pragma once

// Eight floats at a time with the compiler's vector extension; included once per instruction set,
// so everything has internal linkage, and no inline function of the standard library is called: the
// linker might keep this unit's copy of it for everybody.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace longhaul {
namespace {

constexpr size_t kVec = 8;
using Vec = float __attribute__((vector_size(kVec * sizeof(float))));
using VecInt = int32_t __attribute__((vector_size(kVec * sizeof(int32_t))));

#define LONGHAUL_INLINE inline __attribute__((always_inline))

LONGHAUL_INLINE Vec Splat(float x) { return Vec{x, x, x, x, x, x, x, x}; }

LONGHAUL_INLINE Vec Load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
LONGHAUL_INLINE void Store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

// The first `count` < 8 floats, the rest `fill`.
LONGHAUL_INLINE Vec LoadPart(const float* p, size_t count, float fill) {
  Vec v = Splat(fill);
  std::memcpy(&v, p, count * sizeof(float));
  return v;
}
LONGHAUL_INLINE void StorePart(float* p, size_t count, Vec v) {
  std::memcpy(p, &v, count * sizeof(float));
}

// Lanes are added pairwise: one order on every instruction set.
LONGHAUL_INLINE float Sum(Vec v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}
LONGHAUL_INLINE Vec Max(Vec a, Vec b) { return a > b ? a : b; }
LONGHAUL_INLINE float Max(Vec v) {
  float m = v[0];
  for (size_t i = 1; i < kVec; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// e^x for x <= 88, within 2 ulp (Cephes' polynomial); below -87.3 the result is 1.2e-38, which
// every use here adds to something of order 1. NaN stays NaN.
LONGHAUL_INLINE Vec Exp(Vec x) {
  const Vec low = Splat(-87.336f), high = Splat(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const Vec magic = Splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec z = x * Splat(1.44269504088896341f) + magic;
  const Vec n = z - magic;
  Vec r = x - n * Splat(0.693359375f);
  r = r - n * Splat(-2.12194440e-4f);
  Vec p = Splat(1.9875691500e-4f);
  p = p * r + Splat(1.3981999507e-3f);
  p = p * r + Splat(8.3334519073e-3f);
  p = p * r + Splat(4.1665795894e-2f);
  p = p * r + Splat(1.6666665459e-1f);
  p = p * r + Splat(5.0000001201e-1f);
  p = p * (r * r) + r + Splat(1.0f);
  VecInt bits;
  std::memcpy(&bits, &z, sizeof bits);
  bits = (bits - 0x4B400000 + 127) << 23;
  Vec scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

// Runs body(offset, lanes) over `count` floats: eight lanes each, then the rest.
template <typename Full, typename Part>
LONGHAUL_INLINE void ForEachVec(size_t count, Full full, Part part) {
  size_t i = 0;
  for (; i + kVec <= count; i += kVec) full(i);
  if (i < count) part(i, count - i);
}

}  // namespace
}  // namespace longhaul
