#pragma once

#include "compressors/families/block_codec.h"
#include "compressors/kernels/fp4_scale.h"

namespace longhaul {

// `mxfp4` (OCP Microscaling formats): blocks of 32, scale E8M0 = 2^(floor(log2 max|x|) - 2),
// elements E2M1, RNE; values above 6 s saturate, so up to a quarter of the block's maximum is
// clipped. 4.25 bits per element; layout in block_codec.h. A block whose scale would be below
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

// `nvfp4` (NVIDIA's format): tensor scale t = max|x| / (448 * 6), fp32; blocks of 16 of a row with
// scale c = E4M3((block's max|x| / 6) / t); elements E2M1(x / (c t)), RNE, saturating. Below 2^-126
// t and c t are 0, and so is what they scale. 4.5 + 32/n bits per element, two passes.
// Payload: t f32, c [blocks] u8, codes: a row's codes in one bit string of ceil(4 cols / 8) bytes.
std::shared_ptr<const Codec> NewNvFp4Codec(std::string_view name, uint16_t id, Isa isa);

bool IsNvFp4(const Codec& codec);

}  // namespace longhaul
