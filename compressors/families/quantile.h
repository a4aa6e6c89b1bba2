#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `quantile8` (hivemind's QUANTILE_8BIT): per tensor, 255 borders at the i/256 quantiles, code =
// the number of borders not above x, xhat = table[code] = mean of the bucket (0 if empty). Borders:
// the tensor in chunks of 2^17 elements, each sorted, its elements number floor(i c / 256); these
// of all chunks sorted again, and of them number floor(i m / 256) of m.
//
// Payload: table [256] f32, codes [n] u8. 8 + 8192/n bits per element. Bucket sums in fp64 by
// index. Encoding sorts: tens of megabytes per second.
std::shared_ptr<const Codec> NewQuantileCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
