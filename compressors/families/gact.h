#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `gact4-g256` (the quantizer of GACT, arXiv 2206.11357): per group of 256 of a row z = min,
// s = (max - z) / 15, both fp32, q = clamp(floor((x - z) / s + u), 0, 15), u uniform in [0, 1) by
// the frame's seed and the element's number (noise.h); xhat = z + q s, in expectation x. s below
// 2^-126 is 0.
//
// Payload: z [groups] f32, s [groups] f32, codes of 4 bits, 128 bytes per full group, ceil(c / 2)
// for a row's short one. 4.25 bits per element. InvalidArgument when max - min is beyond fp32.
std::shared_ptr<const Codec> NewGactCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
