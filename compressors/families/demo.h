#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `demo-dct` (DeMo, arXiv 2411.19870): delta <- 0.999 delta + x; of the orthonormal 2-D DCT-II of
// every tile of 64 x 64 the 32 largest coefficients are sent as bf16, ties: the lowest index, and
// leave delta. Decodes to the inverse DCT of what was sent; averaging, and the sign that DeMo takes
// of the average, belong to the round. x is lr * gradient.
//
// A tensor of one row is tiled as rows of 64 elements in its order. Tiles at the right and lower
// edge are smaller and have DCTs of their sides; a tile of c elements keeps about 32 c / 4096, at
// least one. Bands of tiles: the full rows of tiles, the last row of tiles, and of a one-row tensor
// what is left of a row of 64; those that are empty are left out.
// Payload: per band u32 index coding, u32 Rice r, u64 bytes of the indices; then per band the
// indices (index_coding.h; tile by tile, row of the tile times its width plus column); the kept
// coefficients bf16 in that order. Each 8-byte aligned. block = 64, param0 = 32. About 0.19 bits
// per element. State: one fp32 copy.
std::shared_ptr<const Codec> NewDemoCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
