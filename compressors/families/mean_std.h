#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `fp16-meanstd` (hivemind's MEANSTD_16BIT): per row, m = mean, s = sqrt(mean (x - m)^2), at least
// 2^-23; h = fp16((x - m) / s), xhat = m + h s.
//
// Payload: m [rows] f32, s [rows] f32, h [n] fp16. 16 + 64/cols bits per element. Sums in the order
// of tree_sum.h. InvalidArgument when a sum is beyond fp32.
std::shared_ptr<const Codec> NewMeanStdCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
