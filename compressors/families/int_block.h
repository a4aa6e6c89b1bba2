#pragma once

#include "compressors/families/block_codec.h"

namespace longhaul {

// `int8-b64`, `int4-b64`, `int4-b64-h64`: per block of 64, s = bf16(max|x| / (2^(k-1) - 1)),
// q = rne(x / s), stored as q + 2^(k-1). k + 0.25 bits per element; layout in block_codec.h.
// Error per element at most s/2 plus the rounding of s (2^-9 of x).
//
// -h64 multiplies every full block by H64/8 first and undoes it after decoding: an outlier's energy
// spreads over its block, so heavy tails cost no more than Gaussian noise, at no extra bits.
// `int8-b4096` is int8 with blocks of 4096: 8.004 bits per element.
template <int kBits, Rotation kRotation = Rotation::kNone, int kBlock = 64>
std::shared_ptr<const Codec> NewIntBlockCodec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {kBits, Grid::kSymmetric, kRotation, kBlock}, isa);
}

}  // namespace longhaul
