#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

// Arithmetic of CRC32C: polynomials over GF(2) modulo Castagnoli's P, coefficient of x^0 in bit 31.
namespace longhaul {

// a b mod P.
LONGHAUL_INLINE constexpr uint32_t MultiplyModP(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a >> 31) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return product;
}

// x^n mod P.
LONGHAUL_INLINE constexpr uint32_t PowerOfX(size_t n) {
  uint32_t power = 0x80000000u, square = 0x40000000u;
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) power = MultiplyModP(power, square);
    square = MultiplyModP(square, square);
  }
  return power;
}

}  // namespace longhaul
