#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `sign1` (EF-signSGD): one bit per element and a scale per block of 256, for outer deltas with error
// feedback. Bit = x >= 0 (-0 too), xhat = +-s, s = bf16(mean|x|), which minimises the squared error.
// Sums in the order of tree_sum.h.
// Payload: scales [blocks] bf16, bits: 32 bytes per full block, ceil(c / 8) for a row's short block.
// 1.0625 bits per element. InvalidArgument when a block's sum is beyond fp32.
std::shared_ptr<const Codec> NewSignCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
