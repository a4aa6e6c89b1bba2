#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/isa.h"
#include "compressors/numbers/mini_floats.h"

// FP4 under a scale of the whole tensor: `nvfp4` and `e3m0`, whole groups of a row.
namespace longhaul {

constexpr int kNvBlock = 16;       // elements under one E4M3
constexpr size_t kFp4Group = 256;  // elements that kernels work on

// What a block's elements are multiples of: E4M3 `code` times t; 0 when below fp32's smallest
// normal, rounded down where six times it would overflow.
LONGHAUL_INLINE float NvScale(uint8_t code, float t) {
  const float s = MiniToF32(code, MiniFloat::kE4M3) * t;
  if (s < 0x1p-126f) return 0.0f;
  return (BitsOf(6.0f * s) & kAbsMask) < kInfBits ? s : FromBits(BitsOf(s) - 1);
}

// groups > 0. x: [256 groups] f32, finite, not aligned; codes: [128 groups]; scales: [16 groups]
// E4M3.
struct Fp4Kernels {
  // t > 0.
  void (*encode_nv)(const std::byte* x, size_t groups, float t, std::byte* scales,
                    std::byte* codes);
  // False: a scale is negative or NaN; x then holds anything.
  bool (*decode_nv)(const std::byte* scales, const std::byte* codes, size_t groups, float t,
                    std::byte* x);
  // inverse > 0.
  void (*encode_e3m0)(const std::byte* x, size_t groups, float inverse, std::byte* codes);
  void (*decode_e3m0)(const std::byte* codes, size_t groups, float s, std::byte* x);
};

// nullptr for kScalar: the codecs' own loops are the reference.
const Fp4Kernels* Fp4KernelsOf(Isa isa);

const Fp4Kernels& Avx2Fp4Kernels();
const Fp4Kernels& Avx512Fp4Kernels();

}  // namespace longhaul
