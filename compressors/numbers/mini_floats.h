#pragma once

#include "compressors/numbers/small_floats.h"

// Floats of four and eight bits: conversions to and from fp32 on bits, the reference of the vector
// kernels. A code is sign, exponent, mantissa from the top; no Inf.
namespace longhaul {

enum class MiniFloat : uint8_t {
  kE4M3,  // FN: bias 7, largest 448, subnormal step 2^-9; 0x7F is NaN
  kE5M2,  // bias 15, largest finite 57344, subnormal step 2^-16; above 0x7B Inf and NaN
  kE2M1,  // 0 .5 1 1.5 2 3 4 6
  kE3M0,  // 0 .25 .5 1 2 4 8 16
};

struct MiniFormat {
  int bits;           // sign included
  int mantissa;       // bits of it
  int bias;           // of the exponent
  float max;          // largest finite value
  uint32_t max_code;  // its code
};

LONGHAUL_INLINE constexpr MiniFormat FormatOf(MiniFloat type) {
  switch (type) {
    case MiniFloat::kE4M3:
      return {8, 3, 7, 448.0f, 0x7E};
    case MiniFloat::kE5M2:
      return {8, 2, 15, 57344.0f, 0x7B};
    case MiniFloat::kE2M1:
      return {4, 1, 1, 6.0f, 7};
    case MiniFloat::kE3M0:
      return {4, 0, 3, 16.0f, 7};
  }
  return {};
}

// 2^e as fp32, for normal exponents.
LONGHAUL_INLINE constexpr float PowerOfTwo(int e) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(e + 127) << 23);
}

constexpr bool IsPowerOfTwo(float x) { return x > 0 && (BitsOf(x) & 0x7FFFFF) == 0; }

// RNE (ties to the even code), saturating. Not for NaN.
LONGHAUL_INLINE constexpr uint8_t F32ToMini(float x, MiniFloat type) {
  const MiniFormat f = FormatOf(type);
  const uint32_t u = BitsOf(x);
  const float abs = FromBits(u & kAbsMask) < f.max ? FromBits(u & kAbsMask) : f.max;
  uint32_t code;
  if (abs < PowerOfTwo(1 - f.bias)) {  // subnormal: the sum's low bits are the rounded multiple
    const float magic = PowerOfTwo(24 - f.bias - f.mantissa);
    code = BitsOf(abs + magic) - BitsOf(magic);
  } else {
    const int cut = 23 - f.mantissa;
    const uint32_t a = BitsOf(abs);
    code = ((a + (1u << (cut - 1)) - 1 + ((a >> cut) & 1)) >> cut) -
           (static_cast<uint32_t>(127 - f.bias) << f.mantissa);
  }
  return static_cast<uint8_t>(code | (u >> 31) << (f.bits - 1));
}

// Exact. Codes above max_code read as if the format went on.
LONGHAUL_INLINE constexpr float MiniToF32(uint8_t code, MiniFloat type) {
  const MiniFormat f = FormatOf(type);
  const uint32_t sign = static_cast<uint32_t>(code >> (f.bits - 1)) << 31;
  const uint32_t mag = code & ((1u << (f.bits - 1)) - 1);
  if (mag >> f.mantissa == 0) {
    return FromBits(sign | BitsOf(static_cast<float>(mag) * PowerOfTwo(1 - f.bias - f.mantissa)));
  }
  return FromBits(sign |
                  ((mag << (23 - f.mantissa)) + (static_cast<uint32_t>(127 - f.bias) << 23)));
}

// Every value of a format of four bits, by code.
struct FourBitValues {
  float of[16];
};
constexpr FourBitValues ValuesOf(MiniFloat type) {
  FourBitValues values = {};
  for (uint8_t code = 0; code < 16; ++code) values.of[code] = MiniToF32(code, type);
  return values;
}

}  // namespace longhaul
