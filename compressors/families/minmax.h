#pragma once

#include "compressors/families/block_codec.h"

namespace longhaul {

// `minmax{k}-b64`, k = 2..8 (arXiv 2401.07788, there per tensor): per block of 64, z = bf16(min),
// s = bf16((max - z) / (2^k - 1)), q = clamp(rne((x - z) / s), 0, 2^k - 1), xhat = z + q s.
// k + 0.5 bits per element; layout in block_codec.h. Error per element at most s/2 plus the
// roundings of z and s (2^-9 of each). InvalidArgument when max - min of a block is beyond fp32.
// `minmax4-b64-h64` rotates every full block by H64/8 first, as int_block.h says.
template <int kBits, Rotation kRotation = Rotation::kNone>
std::shared_ptr<const Codec> NewMinMaxCodec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {kBits, Grid::kAffine, kRotation}, isa);
}

}  // namespace longhaul
