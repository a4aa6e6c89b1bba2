// The block quantizers in plain loops: what every vector kernel must reproduce bit for bit.
#include <cstring>
#include <utility>

#include "compressors/bit_pack.h"
#include "compressors/block_kernels.h"
#include "compressors/convert.h"
#include "compressors/hadamard.h"

namespace longhaul {
namespace {

bool Rotates(BlockScheme scheme, size_t c) {
  return scheme.rotation == Rotation::kHadamard64 && c == kBlock;
}

float Clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

// x: [c] -> q: [c], as stored.
WireScale QuantizeSymmetric(BlockScheme scheme, std::span<const float> x, uint32_t max_bits,
                            uint8_t* q) {
  const float top = static_cast<float>(Levels(scheme));
  const WireScale s = SymmetricScale(max_bits, Levels(scheme));
  for (size_t i = 0; i < x.size(); ++i) {
    q[i] =
        static_cast<uint8_t>(RoundToInt(Clamp(x[i] * s.inverse, -top, top)) + CodeOffset(scheme));
  }
  return s;
}

WireScale QuantizeAffine(BlockScheme scheme, std::span<const float> x, float z, float max,
                         uint8_t* q) {
  const float top = static_cast<float>(Levels(scheme));
  const WireScale s = AffineScale(z, max, Levels(scheme));
  for (size_t i = 0; i < x.size(); ++i) {
    q[i] = static_cast<uint8_t>(RoundToInt(Clamp((x[i] - z) * s.inverse, 0, top)));
  }
  return s;
}

template <BlockScheme kScheme, DType kType>
BlockFault EncodeBlocks(const std::byte* x, size_t blocks, BlockSections out) {
  for (size_t b = 0; b < blocks; ++b) {
    const BlockFault fault = EncodeBlockReference(kScheme, x, kType, kBlock, out);
    if (fault != BlockFault::kNone) return fault;
    x += kBlock * BytesPerElement(kType);
    out.scales += 2;
    if (kScheme.grid == Grid::kAffine) out.zeros += 2;
    out.codes += 8 * kScheme.bits;
  }
  return BlockFault::kNone;
}

template <BlockScheme kScheme, DType kType>
bool DecodeBlocks(ConstBlockSections in, size_t blocks, std::byte* x) {
  for (size_t b = 0; b < blocks; ++b) {
    if (!DecodeBlockReference(kScheme, in, kBlock, kType, x)) return false;
    x += kBlock * BytesPerElement(kType);
    in.scales += 2;
    if (kScheme.grid == Grid::kAffine) in.zeros += 2;
    in.codes += 8 * kScheme.bits;
  }
  return true;
}

template <size_t... kIndex>
constexpr BlockKernelTable MakeTable(std::index_sequence<kIndex...>) {
  using enum DType;
  return {{{{EncodeBlocks<kBlockSchemes[kIndex], kF32>, EncodeBlocks<kBlockSchemes[kIndex], kBF16>,
             EncodeBlocks<kBlockSchemes[kIndex], kF16>}...}},
          {{{DecodeBlocks<kBlockSchemes[kIndex], kF32>, DecodeBlocks<kBlockSchemes[kIndex], kBF16>,
             DecodeBlocks<kBlockSchemes[kIndex], kF16>}...}}};
}

}  // namespace

BlockFault EncodeBlockReference(BlockScheme scheme, const std::byte* bytes, DType dtype, size_t c,
                                BlockSections out) {
  float values[kBlock];
  const std::span<float> x(values, c);
  for (size_t i = 0; i < c; ++i) x[i] = LoadElement(bytes, dtype, i);
  if (Rotates(scheme, c)) Hadamard(x);
  uint32_t max_bits = 0;
  for (float v : x) max_bits = std::max(max_bits, BitsOf(v) & kAbsMask);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;

  uint8_t q[kBlock];
  WireScale s;
  if (scheme.grid == Grid::kSymmetric) {
    s = QuantizeSymmetric(scheme, x, max_bits, q);
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
  std::memcpy(out.scales, &s.wire, 2);
  PackBits({q, c}, scheme.bits, {out.codes, PackedBytes(c, scheme.bits)});
  return BlockFault::kNone;
}

bool DecodeBlockReference(BlockScheme scheme, ConstBlockSections in, size_t c, DType dtype,
                          std::byte* bytes) {
  uint16_t wire_s, wire_z = 0;
  std::memcpy(&wire_s, in.scales, 2);
  if (scheme.grid == Grid::kAffine) std::memcpy(&wire_z, in.zeros, 2);
  if ((wire_s & 0x7F80) == 0x7F80 || (wire_z & 0x7F80) == 0x7F80) return false;
  const float s = Bf16ToF32(wire_s), z = Bf16ToF32(wire_z);

  uint8_t q[kBlock];
  UnpackBits({in.codes, PackedBytes(c, scheme.bits)}, scheme.bits, {q, c});
  float x[kBlock];
  for (size_t i = 0; i < c; ++i) {
    const float code = static_cast<float>(q[i] - CodeOffset(scheme));
    x[i] = scheme.grid == Grid::kSymmetric ? code * s : z + code * s;
  }
  if (Rotates(scheme, c)) Hadamard({x, c});
  for (size_t i = 0; i < c; ++i) StoreElement(x[i], bytes, dtype, i);
  return true;
}

const BlockKernelTable& ScalarBlockKernels() {
  static constexpr BlockKernelTable table =
      MakeTable(std::make_index_sequence<kBlockSchemes.size()>());
  return table;
}

const BlockKernelTable& BlockKernels(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return ScalarBlockKernels();
    case Isa::kAvx2:
      return Avx2BlockKernels();
    case Isa::kAvx512:
      return Avx512BlockKernels();
  }
  return ScalarBlockKernels();
}

}  // namespace longhaul
