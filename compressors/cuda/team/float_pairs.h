#pragma once

#include <cmath>

#include "compressors/codec.h"
#include "compressors/cuda/team/team.h"
#include "compressors/numbers/mini_floats.h"

// Two 16-bit floats in a word, the lower element in the lower half: in one instruction on a GPU,
// by the conversions of small_floats.h elsewhere. Alike for all numbers; where NaN comes in, a NaN
// comes out, perhaps another one (a tensor or frame that holds one is refused).
namespace longhaul {

// RNE; finite stays finite.
template <DType kType>
LONGHAUL_TEXT uint32_t NarrowPair(float low, float high) {
  static_assert(kType != DType::kF32);
#ifdef __CUDA_ARCH__
  uint32_t pair;
  if constexpr (kType == DType::kBF16) {
    asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  const auto narrow = [](float x) -> uint32_t {
    return kType == DType::kBF16 ? F32ToBf16Clamped(x) : F32ToF16Clamped(x);
  };
  return narrow(low) | narrow(high) << 16;
#endif
}

// Exact.
template <DType kType>
LONGHAUL_TEXT void WidenPair(uint32_t pair, float& low, float& high) {
  static_assert(kType != DType::kF32);
  if constexpr (kType == DType::kBF16) {
    low = FromBits(pair << 16);
    high = FromBits(pair & 0xFFFF0000);
  } else {
#ifdef __CUDA_ARCH__
    asm("{\n\t.reg .b16 l, h;\n\t"
        "mov.b32 {l, h}, %2;\n\t"
        "cvt.f32.f16 %0, l;\n\t"
        "cvt.f32.f16 %1, h;\n\t}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
#else
    low = F16ToF32(static_cast<uint16_t>(pair));
    high = F16ToF32(static_cast<uint16_t>(pair >> 16));
#endif
  }
}

// Bits of a 16-bit float without its sign -> those of the same number in fp32; at or above kInfBits
// where it is Inf or NaN.
template <DType kType>
LONGHAUL_TEXT uint32_t WidenAbsBits(uint32_t half) {
  float low, high;
  WidenPair<kType>(half, low, high);
  return BitsOf(low);
}

// The larger of each half, as whole numbers.
LONGHAUL_TEXT uint32_t MaxOfHalves(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  return __vmaxu2(a, b);
#else
  const uint32_t low_a = a & 0xFFFF, low_b = b & 0xFFFF, high_a = a >> 16, high_b = b >> 16;
  return (low_a > low_b ? low_a : low_b) | (high_a > high_b ? high_a : high_b) << 16;
#endif
}

// a + b rounded down.
LONGHAUL_TEXT float SumBelow(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rd(a, b);
#else
  const double exact = static_cast<double>(a) + b;  // of what is added here
  const float sum = static_cast<float>(exact);
  return sum > exact ? nextafterf(sum, -1e38f) : sum;
#endif
}

// The smaller and the larger of two numbers; NaN where one is. Of zeros either.
LONGHAUL_TEXT float Least(float a, float b) {
#ifdef __CUDA_ARCH__
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
#else
  return a != a || a < b ? a : b;
#endif
}
LONGHAUL_TEXT float Largest(float a, float b) {
#ifdef __CUDA_ARCH__
  float largest;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(a), "f"(b));
  return largest;
#else
  return a != a || a > b ? a : b;
#endif
}

// The same of each half.
template <DType kType>
LONGHAUL_TEXT uint32_t LeastPair(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint32_t least;
  if constexpr (kType == DType::kBF16) {
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
  } else {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
  }
  return least;
#else
  float low_a, high_a, low_b, high_b;
  WidenPair<kType>(a, low_a, high_a);
  WidenPair<kType>(b, low_b, high_b);
  return ((low_a != low_a || low_a < low_b ? a : b) & 0xFFFF) |
         ((high_a != high_a || high_a < high_b ? a : b) & 0xFFFF0000);
#endif
}
template <DType kType>
LONGHAUL_TEXT uint32_t LargestPair(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint32_t largest;
  if constexpr (kType == DType::kBF16) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(largest) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(largest) : "r"(a), "r"(b));
  }
  return largest;
#else
  float low_a, high_a, low_b, high_b;
  WidenPair<kType>(a, low_a, high_a);
  WidenPair<kType>(b, low_b, high_b);
  return ((low_a != low_a || low_a > low_b ? a : b) & 0xFFFF) |
         ((high_a != high_a || high_a > high_b ? a : b) & 0xFFFF0000);
#endif
}

// Two numbers -> two floats of eight bits, E4M3 or E5M2: RNE, saturating (mini_floats.h); Hopper
// and later have an instruction. Not for NaN.
template <MiniFloat kTo>
LONGHAUL_TEXT uint32_t MiniPair(float low, float high) {
  static_assert(kTo == MiniFloat::kE4M3 || kTo == MiniFloat::kE5M2);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  if constexpr (kTo == MiniFloat::kE4M3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return F32ToMini(low, kTo) | static_cast<uint32_t>(F32ToMini(high, kTo)) << 8;
#endif
}

// The inverse, exact; of codes that stand for no number anything.
template <MiniFloat kFrom>
LONGHAUL_TEXT void WidenMiniPair(uint32_t pair, float& low, float& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  if constexpr (kFrom == MiniFloat::kE4M3) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  }
  WidenPair<DType::kF16>(halves, low, high);
#else
  low = MiniToF32(static_cast<uint8_t>(pair), kFrom);
  high = MiniToF32(static_cast<uint8_t>(pair >> 8), kFrom);
#endif
}

}  // namespace longhaul
