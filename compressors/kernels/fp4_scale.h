#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/mini_floats.h"

// `nvfp4`, whole groups of a row.
namespace longhaul {

constexpr int kNvBlock = 16;  // elements under one E4M3
// No encoder writes a larger scale of a tensor (with room for its rounding).
constexpr float kMostNvScale = 0x1.fffffep127f / (448.0f * 6.0f) * 1.000001f;
constexpr size_t kFp4Group = 256;  // elements that a kernel works on at least

// What a block's elements are multiples of: E4M3 `code` times t; 0 when below fp32's smallest
// normal, rounded down where six times it would overflow.
LONGHAUL_INLINE float NvScale(uint8_t code, float t) {
  const float s = MiniToF32(code, MiniFloat::kE4M3) * t;
  if (s < 0x1p-126f) return 0.0f;
  return (BitsOf(6.0f * s) & kAbsMask) < kInfBits ? s : FromBits(BitsOf(s) - 1);
}

}  // namespace longhaul
