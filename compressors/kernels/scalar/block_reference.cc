// The block quantizers in plain loops: what every vector kernel must reproduce bit for bit.
#include <cstring>

#include "compressors/kernels/block_sections.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/hadamard.h"

namespace longhaul {
namespace {

bool Rotates(BlockScheme scheme, size_t c) {
  return scheme.rotation == Rotation::kHadamard && c == static_cast<size_t>(scheme.block);
}

float Clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

// x: [c] -> q: [c], as stored.
WireScale QuantizeAbsMax(BlockScheme scheme, std::span<const float> x, uint32_t max_bits,
                         uint8_t* q) {
  const float top = TopValue(scheme);
  const WireScale s = AbsMaxScale(scheme, max_bits);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!IsMini(scheme.grid)) {
      q[i] =
          static_cast<uint8_t>(RoundToInt(Clamp(x[i] * s.inverse, -top, top)) + CodeOffset(scheme));
    } else {
      q[i] = s.value == 0 ? uint8_t{0} : F32ToMini(x[i] * s.inverse, MiniOf(scheme.grid));
    }
  }
  return s;
}

WireScale QuantizeAffine(BlockScheme scheme, std::span<const float> x, float z, float max,
                         uint8_t* q) {
  const float top = TopValue(scheme);
  const WireScale s = AffineScale(z, max, Levels(scheme));
  for (size_t i = 0; i < x.size(); ++i) {
    q[i] = static_cast<uint8_t>(RoundToInt(Clamp((x[i] - z) * s.inverse, 0, top)));
  }
  return s;
}

// Code -> xhat; false for a code that stands for no number.
bool Dequantize(BlockScheme scheme, uint8_t code, float s, float z, float& x) {
  if (IsMini(scheme.grid)) {
    const MiniFormat f = FormatOf(MiniOf(scheme.grid));
    x = MiniToF32(code, MiniOf(scheme.grid)) * s;
    return (code & ((1u << (f.bits - 1)) - 1)) <= f.max_code;
  }
  const float q = static_cast<float>(code - CodeOffset(scheme));
  x = scheme.grid == Grid::kSymmetric ? q * s : z + q * s;
  return true;
}

// q: [c], the codes of a rotated block -> x: [c].
void DequantizeRotated(BlockScheme scheme, std::span<const uint8_t> q, float s, float z,
                       std::span<float> x) {
  int32_t steps[kMaxBlock];
  for (size_t i = 0; i < q.size(); ++i) {
    steps[i] = IsMini(scheme.grid) ? static_cast<int32_t>(2 * MiniToF32(q[i], MiniOf(scheme.grid)))
                                   : q[i] - CodeOffset(scheme);
  }
  HadamardSums({steps, q.size()});
  for (size_t i = 0; i < q.size(); ++i) {
    x[i] = static_cast<float>(steps[i]) * UnrotatedStep(scheme) * s;
  }
  if (scheme.grid == Grid::kAffine) x[0] += z / HadamardNorm(scheme.block);
}

}  // namespace

BlockFault EncodeBlockReference(BlockScheme scheme, const std::byte* bytes, size_t c,
                                BlockSections out) {
  float values[kMaxBlock];
  const std::span<float> x(values, c);
  std::memcpy(values, bytes, 4 * c);
  if (Rotates(scheme, c)) Hadamard(x);
  uint32_t max_bits = 0;
  for (float v : x) max_bits = std::max(max_bits, BitsOf(v) & kAbsMask);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;

  uint8_t q[kMaxBlock];
  WireScale s;
  if (scheme.grid != Grid::kAffine) {
    s = QuantizeAbsMax(scheme, x, max_bits, q);
  } else {
    float min = x[0], max = x[0];
    for (float v : x) {
      min = v < min ? v : min;
      max = v > max ? v : max;
    }
    const uint16_t wire_z = AffineZero(min);
    const float z = Bf16ToF32(wire_z);
    if (AffineOverflows(min, max, z)) return BlockFault::kRange;
    s = QuantizeAffine(scheme, x, z, max, q);
    std::memcpy(out.zeros, &wire_z, 2);
  }
  WriteScale(scheme, s, out.scales);
  PackBits({q, c}, scheme.bits, {out.codes, PackedBytes(c, scheme.bits)});
  return BlockFault::kNone;
}

bool DecodeBlockReference(BlockScheme scheme, ConstBlockSections in, size_t c, std::byte* bytes) {
  float s, z = 0;
  if (!ReadScale(scheme, in.scales, s)) return false;
  if (scheme.grid == Grid::kAffine && !ReadScale(scheme, in.zeros, z)) return false;

  uint8_t q[kMaxBlock];
  UnpackBits({in.codes, PackedBytes(c, scheme.bits)}, scheme.bits, {q, c});
  float x[kMaxBlock];
  if (Rotates(scheme, c)) {
    DequantizeRotated(scheme, {q, c}, s, z, {x, c});
  } else {
    for (size_t i = 0; i < c; ++i) {
      if (!Dequantize(scheme, q[i], s, z, x[i])) return false;
    }
  }
  std::memcpy(bytes, x, 4 * c);
  return true;
}

}  // namespace longhaul
