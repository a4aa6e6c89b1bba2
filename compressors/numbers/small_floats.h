#pragma once

#include <cstdint>

// Conversions between fp32 and the 16-bit floats, on bits. These are the reference: the vector
// kernels give the same bits for every input, NaN included.
//
// Everything here is forced inline, because it is also compiled into the AVX2 and AVX-512 files: an
// out-of-line copy made there could be the one that the linker keeps for all. CUDA takes the same
// functions.
namespace longhaul {

#ifdef __CUDACC__
#define LONGHAUL_INLINE __host__ __device__ __forceinline__
#else
#define LONGHAUL_INLINE [[gnu::always_inline]] inline
#endif

LONGHAUL_INLINE constexpr uint32_t BitsOf(float x) { return __builtin_bit_cast(uint32_t, x); }
LONGHAUL_INLINE constexpr float FromBits(uint32_t u) { return __builtin_bit_cast(float, u); }

// An absolute value's bits at or above this are Inf or NaN.
constexpr uint32_t kInfBits = 0x7F800000;
constexpr uint32_t kAbsMask = 0x7FFFFFFF;

LONGHAUL_INLINE float Bf16ToF32(uint16_t h) { return FromBits(uint32_t{h} << 16); }

// RNE; beyond the largest bf16 this rounds to Inf, NaN stays a (quiet) NaN.
LONGHAUL_INLINE uint16_t F32ToBf16(float x) {
  const uint32_t u = BitsOf(x);
  if ((u & kAbsMask) > kInfBits) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

// As F32ToBf16, but finite stays finite: clamps to the largest bf16, 0x7F7F. Inf clamps too.
LONGHAUL_INLINE uint16_t F32ToBf16Clamped(float x) {
  const uint32_t u = BitsOf(x);
  const uint32_t abs = u & kAbsMask;
  if (abs > kInfBits) return static_cast<uint16_t>((u >> 16) | 0x40);
  const uint32_t top = abs > 0x7F7F0000 ? 0x7F7F0000 : abs;
  return static_cast<uint16_t>(((top + 0x7FFF + ((top >> 16) & 1)) >> 16) | ((u >> 16) & 0x8000));
}

LONGHAUL_INLINE float F16ToF32(uint16_t h) {
  const uint32_t sign = (uint32_t{h} & 0x8000) << 16;
  const uint32_t abs = h & 0x7FFF;
  if (abs > 0x7C00) return FromBits(sign | kInfBits | 0x400000 | (abs & 0x3FF) << 13);  // quiet NaN
  if (abs == 0x7C00) return FromBits(sign | kInfBits);
  if (abs >= 0x400) return FromBits(sign | ((abs << 13) + (112u << 23)));
  // Subnormal: value = abs * 2^-24, exact in fp32.
  return FromBits(sign | BitsOf(static_cast<float>(abs) * 0x1p-24f));
}

// RNE, clamped to +-65504 (Inf too); NaN stays a quiet NaN.
LONGHAUL_INLINE uint16_t F32ToF16Clamped(float x) {
  const uint32_t u = BitsOf(x);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t abs = u & kAbsMask;
  if (abs > kInfBits) return static_cast<uint16_t>(sign | 0x7E00 | ((abs >> 13) & 0x3FF));
  if (abs >= 0x477FE000) return static_cast<uint16_t>(sign | 0x7BFF);  // >= 65504
  if (abs <
      0x38800000) {  // below 2^-14: adding 0.5 leaves the RNE multiple of 2^-24 in the low bits
    return static_cast<uint16_t>(sign | (BitsOf(FromBits(abs) + 0.5f) - 0x3F000000));
  }
  return static_cast<uint16_t>(sign | ((abs - (112u << 23) + 0xFFF + ((abs >> 13) & 1)) >> 13));
}

// Round to nearest integer, ties to even, for |x| < 2^22 (needs the default rounding mode, which
// nobody in this project changes).
LONGHAUL_INLINE int32_t RoundToInt(float x) {
  return static_cast<int32_t>(BitsOf(x + 0x1.8p23f) - 0x4B400000u);
}

}  // namespace longhaul
