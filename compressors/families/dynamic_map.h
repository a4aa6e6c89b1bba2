#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `dyn8-b4096` (bitsandbytes' dynamic map, as hivemind's BLOCKWISE_8BIT): per block of 4096 of a
// row s = max|x|, fp32; code = the nearest entry to x / s (the lower on ties) of a fixed map of 256
// values in [-1, 1]; xhat = map[code] s. The map: for i = 0..6, [0.1, 1] cut into 2^i equal cells,
// their midpoints times 10^(i-6), both signs; and 0 and 1. Sorted.
//
// Payload: s [blocks] f32, codes [n] u8. 8.008 bits per element. s below 2^-126 is 0, and the block
// with it.
std::shared_ptr<const Codec> NewDynamicMapCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
