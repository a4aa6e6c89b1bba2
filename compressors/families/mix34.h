#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `mix34-b64`: min-max blocks of 64 (minmax.h) of three or four bits. Of the tensor's nb blocks the
// floor(30 nb / 64) with the largest max - min get four (ties: the lower block), which is the
// greedy answer to "least sum of range^2 / (2^b - 1)^2" for two levels, after GACT's allocator
// (arXiv 2206.11357). 3.98 bits per element: a little better than 4x against bf16.
//
// Payload: widths, one bit per block (1 = four bits); s [nb] bf16; z [nb] bf16; the codes of the
// three-bit blocks, then those of the four-bit blocks, both in block order. A row ends with a short
// block of c: ceil(c b / 8) bytes. Two passes over the tensor.
std::shared_ptr<const Codec> NewMixedMinMaxCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
