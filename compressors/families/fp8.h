#pragma once

#include "compressors/families/block_codec.h"

namespace longhaul {

// `fp8-e4m3-g16`, `fp8-e4m3-g128`, `fp8-e5m2-g16` (COAT, arXiv 2410.19313): per group of G channels
// s = bf16(max|x| / fmax), code = fp8(x / s), RNE, saturating. COAT adds 1e-10 to the maximum; we
// do not, because it crushes tiny gradients. 8 + 16/G bits per element; layout in block_codec.h.
// Relative error per element at most 2^-4 (E4M3) or 2^-3 (E5M2) above s times the smallest normal.
template <Grid kGrid, int kGroup>
std::shared_ptr<const Codec> NewFp8Codec(std::string_view name, uint16_t id, Isa isa) {
  return NewBlockCodec(name, id, {8, kGrid, Rotation::kNone, kGroup}, isa);
}

}  // namespace longhaul
