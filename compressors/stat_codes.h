#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/isa.h"

namespace longhaul {

// q = clamp(rne((x - mu) inverse + 2^bits / 2), 0, 2^bits - 1), bits 2, 4 or 8, as bytes and packed
// as bit_pack.h packs them. Answers how many elements are done, a multiple of 64 from the first one
// on; the rest is the caller's, whose bytes may have been touched.
using StatCodesFn = size_t (*)(const float* x, size_t n, float mu, float inverse, int bits,
                               uint8_t* q, std::byte* packed);

// nullptr for kScalar: plain loops are the reference.
StatCodesFn StatCodesOf(Isa isa);

StatCodesFn Avx2StatCodes();
StatCodesFn Avx512StatCodes();

}  // namespace longhaul
