#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `aqsgd2`, `aqsgd4`, `aqsgd8` (AQ-SGD, arXiv 2206.01299): activations of an example that is seen
// in every epoch. Both ends hold m, the activation as the receiver has it, in fp16. The first visit
// sends x as fp16; a later one quantizes delta = x - m with one scale per column, s = bf16(max over
// the rows of |delta|), q = clamp(rne(delta / s 2^(b-1)), -2^(b-1), 2^(b-1) - 1), and both ends set
// m <- fp16(m + q 2^-(b-1) s) and use m. The state belongs to the example and shape, not to the place. Where a
// difference would be no shorter than fp16 values, values are sent again.
//
// Payload of a first visit: the values fp16. Of a difference: s bf16 per column; codes q + 2^(b-1),
// one bit string. param0 = b. b + 16 / rows bits per element; first visit 16. Marks and tags:
// mirror.h. State: 2 n bytes at each end.
template <int kBits>
std::shared_ptr<const Codec> NewAqSgdCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
