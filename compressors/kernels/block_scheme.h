#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "compressors/numbers/mini_floats.h"
#include "compressors/tensor.h"

// What the block quantizers have in common: blocks of 16 to 4096 elements along a row, one scale
// and perhaps one zero point each, codes of k bits on a grid.
namespace longhaul {

enum class Grid : uint8_t {
  kSymmetric,  // xhat = q s, q in [-(2^(k-1) - 1), 2^(k-1) - 1], stored q + 2^(k-1)
  kAffine,     // xhat = z + q s, q in [0, 2^k - 1]: min-max
  kE4M3,       // xhat = f s, f a small float of mini_floats.h, stored as its code
  kE5M2,
  kE2M1,
  kE3M0,
};
enum class Rotation : uint8_t { kNone, kHadamard };  // of every full block
enum class ScaleType : uint8_t {
  kBf16,  // 2 bytes
  kE8M0,  // 1 byte e: 2^(e - 127); 0 = the block is zero
};

struct BlockScheme {
  int bits;
  Grid grid;
  Rotation rotation = Rotation::kNone;
  int block = 64;
  ScaleType scale = ScaleType::kBf16;
  friend constexpr bool operator==(const BlockScheme&, const BlockScheme&) = default;
};

// Every scheme that has kernels; the index is the row of a kernel table.
constexpr std::array<BlockScheme, 18> kBlockSchemes = {{
    {8, Grid::kSymmetric},
    {8, Grid::kSymmetric, Rotation::kNone, 4096},
    {4, Grid::kSymmetric},
    {4, Grid::kSymmetric, Rotation::kHadamard},
    {2, Grid::kAffine},
    {3, Grid::kAffine},
    {4, Grid::kAffine},
    {5, Grid::kAffine},
    {6, Grid::kAffine},
    {7, Grid::kAffine},
    {8, Grid::kAffine},
    {4, Grid::kAffine, Rotation::kHadamard},
    {8, Grid::kE4M3, Rotation::kNone, 16},
    {8, Grid::kE4M3, Rotation::kNone, 128},
    {8, Grid::kE5M2, Rotation::kNone, 16},
    {4, Grid::kE2M1, Rotation::kNone, 32, ScaleType::kE8M0},
    {4, Grid::kE2M1, Rotation::kHadamard, 32, ScaleType::kE8M0},
    {4, Grid::kE3M0},
}};
constexpr size_t kMaxBlock = 4096;

constexpr size_t SchemeIndex(BlockScheme scheme) {
  size_t i = 0;
  while (!(kBlockSchemes[i] == scheme)) ++i;
  return i;
}

LONGHAUL_INLINE constexpr bool IsMini(Grid grid) { return grid >= Grid::kE4M3; }
LONGHAUL_INLINE constexpr MiniFloat MiniOf(Grid grid) {
  return static_cast<MiniFloat>(static_cast<int>(grid) - static_cast<int>(Grid::kE4M3));
}

// Largest code of an integer grid, counted from its middle (symmetric) or its low end (affine).
LONGHAUL_INLINE constexpr int Levels(BlockScheme s) {
  return s.grid == Grid::kSymmetric ? (1 << (s.bits - 1)) - 1 : (1 << s.bits) - 1;
}
// The value that the block's largest |x| is scaled to.
LONGHAUL_INLINE constexpr float TopValue(BlockScheme s) {
  return IsMini(s.grid) ? FormatOf(MiniOf(s.grid)).max : static_cast<float>(Levels(s));
}
// Offset added to a signed code before it is stored.
LONGHAUL_INLINE constexpr int CodeOffset(BlockScheme s) {
  return s.grid == Grid::kSymmetric ? 1 << (s.bits - 1) : 0;
}
LONGHAUL_INLINE constexpr size_t ScaleBytes(BlockScheme s) {
  return s.scale == ScaleType::kE8M0 ? 1 : 2;
}
LONGHAUL_INLINE constexpr size_t ZeroBytes(BlockScheme s) {
  return s.grid == Grid::kAffine ? 2 : 0;
}
LONGHAUL_INLINE constexpr size_t CodeBytes(BlockScheme s) {
  return static_cast<size_t>(s.block * s.bits / 8);
}

// 1 / sqrt(n), n = 32 or 64, as IEEE division and square root give it.
LONGHAUL_INLINE constexpr float HadamardNorm(int n) { return n == 64 ? 0.125f : 0x1.6a09e6p-3f; }
// Rotated blocks are decoded as (H q * UnrotatedStep) * s, q the codes as whole numbers: steps of
// the grid, halves of one for E2M1. H q is exact in any order. An affine block's first element gets
// z sqrt(n) more, which is what H makes of z everywhere.
LONGHAUL_INLINE constexpr float UnrotatedStep(BlockScheme s) {
  return HadamardNorm(s.block) * (s.grid == Grid::kE2M1 ? 0.5f : 1.0f);
}

enum class BlockFault : uint8_t { kNone = 0, kNotFinite, kRange };

// A scale as it stands on the wire and what the arithmetic uses.
struct WireScale {
  uint16_t wire;  // bf16, or the byte of E8M0
  float value;    // exactly what `wire` means
  float inverse;  // 1 / value, 0 when value is 0
};

// bf16 of `scale`; below the smallest normal it becomes +0, so no flush-to-zero mode can matter.
// `reach(value)` is the largest magnitude that decode can produce: where rounding up would make it
// overflow, the scale is rounded down instead.
template <typename Reach>
LONGHAUL_INLINE WireScale RoundScale(float scale, Reach reach) {
  uint16_t wire = F32ToBf16(scale);
  if ((wire & 0x7F80) == 0) return {0, 0.0f, 0.0f};
  if ((BitsOf(reach(Bf16ToF32(wire))) & kAbsMask) >= kInfBits) --wire;
  const float value = Bf16ToF32(wire);
  return {wire, value, 1.0f / value};
}

// max_bits: the largest |x| of the block, as bits. s = max / TopValue, or for E8M0
// 2^(floor(log2 max) - 2), which is for E2M1 alone: its largest exponent is 2.
LONGHAUL_INLINE WireScale AbsMaxScale(BlockScheme scheme, uint32_t max_bits) {
  if (scheme.scale == ScaleType::kE8M0) {
    const uint32_t exponent = max_bits >> 23;
    if (exponent < 3) return {0, 0.0f, 0.0f};
    return {static_cast<uint16_t>(exponent - 2), FromBits((exponent - 2) << 23),
            FromBits((256 - exponent) << 23)};
  }
  const float top = TopValue(scheme);
  return RoundScale(
      FromBits(max_bits) / top, [top](float s) __attribute__((always_inline)) { return top * s; });
}

// The value of a scale off the wire; false when it is Inf or NaN.
LONGHAUL_INLINE bool ReadScale(BlockScheme scheme, const std::byte* wire, float& value) {
  if (scheme.scale == ScaleType::kE8M0) {
    value = FromBits(static_cast<uint32_t>(*wire) << 23);  // 0 reads as 0
    return *wire != std::byte{0xFF};
  }
  uint16_t bf16;
  __builtin_memcpy(&bf16, wire, 2);
  value = Bf16ToF32(bf16);
  return (bf16 & 0x7F80) != 0x7F80;
}
LONGHAUL_INLINE void WriteScale(BlockScheme scheme, WireScale scale, std::byte* wire) {
  __builtin_memcpy(wire, &scale.wire, scheme.scale == ScaleType::kE8M0 ? 1 : 2);
}

// z = bf16(min). +0 for -0 and for what is below the smallest normal.
LONGHAUL_INLINE uint16_t AffineZero(float min) {
  const uint16_t wire = F32ToBf16(min);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}

// s = (max - z) / levels; negative when rounding put z above the whole (nearly constant) block.
LONGHAUL_INLINE WireScale AffineScale(float z, float max, int levels) {
  const float top = static_cast<float>(levels);
  return RoundScale((max - z) / top,
                    [ top, z ](float s) __attribute__((always_inline)) { return z + top * s; });
}

// True when max - min or z cannot be represented.
LONGHAUL_INLINE bool AffineOverflows(float min, float max, float z) {
  return (BitsOf(max - min) & kAbsMask) >= kInfBits || (BitsOf(max - z) & kAbsMask) >= kInfBits ||
         (BitsOf(z) & kAbsMask) >= kInfBits;
}

}  // namespace longhaul
