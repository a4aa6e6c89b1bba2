#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "compressors/codec.h"
#include "compressors/small_floats.h"

// What the block quantizers (int8, int4, min-max, with and without rotation) have in common: blocks
// of 64 elements, one bf16 scale and perhaps one bf16 zero point each, codes of k bits.
namespace longhaul {

constexpr size_t kBlock = 64;

enum class Grid : uint8_t {
  kSymmetric,  // xhat = q s, q in [-(2^(k-1) - 1), 2^(k-1) - 1], stored q + 2^(k-1)
  kAffine,     // xhat = z + q s, q in [0, 2^k - 1]: min-max
};
enum class Rotation : uint8_t { kNone, kHadamard64 };

struct BlockScheme {
  int bits;
  Grid grid;
  Rotation rotation;
  friend constexpr bool operator==(const BlockScheme&, const BlockScheme&) = default;
};

// Every scheme that has kernels; the index is the row of a kernel table.
constexpr std::array<BlockScheme, 11> kBlockSchemes = {{
    {8, Grid::kSymmetric, Rotation::kNone},
    {4, Grid::kSymmetric, Rotation::kNone},
    {4, Grid::kSymmetric, Rotation::kHadamard64},
    {2, Grid::kAffine, Rotation::kNone},
    {3, Grid::kAffine, Rotation::kNone},
    {4, Grid::kAffine, Rotation::kNone},
    {5, Grid::kAffine, Rotation::kNone},
    {6, Grid::kAffine, Rotation::kNone},
    {7, Grid::kAffine, Rotation::kNone},
    {8, Grid::kAffine, Rotation::kNone},
    {4, Grid::kAffine, Rotation::kHadamard64},
}};

constexpr size_t SchemeIndex(BlockScheme scheme) {
  size_t i = 0;
  while (!(kBlockSchemes[i] == scheme)) ++i;
  return i;
}

// Largest code of the grid, counted from its middle (symmetric) or from its low end (affine).
constexpr int Levels(BlockScheme s) {
  return s.grid == Grid::kSymmetric ? (1 << (s.bits - 1)) - 1 : (1 << s.bits) - 1;
}
// Offset added to a signed code before it is stored.
constexpr int CodeOffset(BlockScheme s) {
  return s.grid == Grid::kSymmetric ? 1 << (s.bits - 1) : 0;
}

enum class BlockFault : uint8_t { kNone = 0, kNotFinite, kRange };

// A scale as it stands on the wire and what the arithmetic uses.
struct WireScale {
  uint16_t wire;  // bf16
  float value;    // exactly Bf16ToF32(wire)
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

// max_bits: the largest |x| of the block, as bits. s = max / levels.
LONGHAUL_INLINE WireScale SymmetricScale(uint32_t max_bits, int levels) {
  const float top = static_cast<float>(levels);
  return RoundScale(FromBits(max_bits) / top, [top](float s) { return top * s; });
}

// z = bf16(min). +0 for -0 and for what is below the smallest normal.
LONGHAUL_INLINE uint16_t AffineZero(float min) {
  const uint16_t wire = F32ToBf16(min);
  return (wire & 0x7F80) == 0 ? 0 : wire;
}

// s = (max - z) / levels; negative when rounding put z above the whole (nearly constant) block.
LONGHAUL_INLINE WireScale AffineScale(float z, float max, int levels) {
  const float top = static_cast<float>(levels);
  return RoundScale((max - z) / top, [top, z](float s) { return z + top * s; });
}

// True when max - min or z cannot be represented.
LONGHAUL_INLINE bool AffineOverflows(float min, float max, float z) {
  return (BitsOf(max - min) & kAbsMask) >= kInfBits || (BitsOf(max - z) & kAbsMask) >= kInfBits ||
         (BitsOf(z) & kAbsMask) >= kInfBits;
}

}  // namespace longhaul
