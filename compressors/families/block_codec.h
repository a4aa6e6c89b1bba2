#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"
#include "compressors/kernels/block_scheme.h"

namespace longhaul {

// The codec of one block scheme. Blocks run along the last dimension; a row ends with a short
// block with metadata of its own, never padded and never rotated.
//
// Payload, each section 8-byte aligned, blocks in row order:
//   scales   [blocks] bf16, or one byte E8M0
//   zeros    [blocks] bf16, affine grids only
//   codes    full block: block k / 8 bytes, short block of c: ceil(c k / 8) bytes; bit_pack.h's bit
//   string
std::shared_ptr<const Codec> NewBlockCodec(std::string_view name, uint16_t id, BlockScheme scheme,
                                           Isa isa);

// `int8-b64`, `int4-b64`, `int4-b64-h64`: per block of 64, s = bf16(max|x| / (2^(k-1) - 1)),
// q = rne(x / s), stored as q + 2^(k-1). k + 0.25 bits per element.
// Error per element at most s/2 plus the rounding of s (2^-9 of x).
//
// -h64 multiplies every full block by H64/8 first and undoes it after decoding: an outlier's energy
// spreads over its block, so heavy tails cost no more than Gaussian noise, at no extra bits.
// `int8-b4096` is int8 with blocks of 4096: 8.004 bits per element.
template <int kBits, Rotation kRotation = Rotation::kNone, int kBlock = 64>
std::shared_ptr<const Codec> NewIntBlockCodec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {kBits, Grid::kSymmetric, kRotation, kBlock}, isa);
}

// `minmax{k}-b64`, k = 2..8 (arXiv 2401.07788, there per tensor): per block of 64, z = bf16(min),
// s = bf16((max - z) / (2^k - 1)), q = clamp(rne((x - z) / s), 0, 2^k - 1), xhat = z + q s.
// k + 0.5 bits per element. Error per element at most s/2 plus the
// roundings of z and s (2^-9 of each). InvalidArgument when max - min of a block is beyond fp32.
// `minmax4-b64-h64` rotates every full block by H64/8 first.
template <int kBits, Rotation kRotation = Rotation::kNone>
std::shared_ptr<const Codec> NewMinMaxCodec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {kBits, Grid::kAffine, kRotation}, isa);
}

// `fp8-e4m3-g16`, `fp8-e4m3-g128`, `fp8-e5m2-g16` (COAT, arXiv 2410.19313): per group of G channels
// s = bf16(max|x| / fmax), code = fp8(x / s), RNE, saturating. COAT adds 1e-10 to the maximum; we
// do not, because it crushes tiny gradients. 8 + 16/G bits per element.
// Relative error per element at most 2^-4 (E4M3) or 2^-3 (E5M2) above s times the smallest normal.
template <Grid kGrid, int kGroup>
std::shared_ptr<const Codec> NewFp8Codec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {8, kGrid, Rotation::kNone, kGroup}, isa);
}

// `mxfp4` (OCP Microscaling formats): blocks of 32, scale E8M0 = 2^(floor(log2 max|x|) - 2),
// elements E2M1, RNE; values above 6 s saturate, so up to a quarter of the block's maximum is
// clipped. 4.25 bits per element. A block whose scale would be below
// 2^-126 is zero. `mxfp4-h32` (Quartet, arXiv 2505.14669) rotates every full block by H32/sqrt(32)
// first.
template <Rotation kRotation>
std::shared_ptr<const Codec> NewMxFp4Codec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {4, Grid::kE2M1, kRotation, 32, ScaleType::kE8M0}, isa);
}

// `e3m0-b64` (the element of Streaming DiLoCo, arXiv 2501.18512, with a scale per block): s =
// bf16(max|x| / 16), elements 0 .25 .5 1 2 4 8 16, nearest in value, ties to the even index.
// 4.25 bits per element. Three times the error of int4-b64, but it hardly depends on the scale.
inline std::shared_ptr<const Codec> NewE3m0BlockCodec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {4, Grid::kE3M0}, isa);
}

// The sections of a frame of `shape`, in bytes without the gaps.
struct BlockSectionBytes {
  size_t scales, zeros, codes;
};
// nullopt when `codec` is no block codec.
std::optional<BlockSectionBytes> SectionsOf(const Codec& codec, Shape shape);

// What a block codec is made of (cuda/block does the same on a device); nullopt when it is none.
struct BlockCodecForm {
  BlockScheme scheme;
  bool stochastic;
};
std::optional<BlockCodecForm> BlockFormOf(const Codec& codec);

// The same codec with stochastic rounding (stochastic.h); nullptr when it is no block codec or its
// grid has no stochastic form. Every block codec decodes both.
std::shared_ptr<const Codec> WithStochasticRounding(const Codec& codec, std::string_view name);

}  // namespace longhaul
