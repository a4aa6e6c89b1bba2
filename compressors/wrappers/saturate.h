#pragma once

#include <cstdint>
#include <memory>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `NAME+sat`: the NaN policy "saturate", where all codecs else refuse NaN and Inf. NaN is sent
// as 0, +-Inf as +-the largest finite number of the dtype, or, where NAME could not hold that (a
// sum or range beyond fp32) or has a state that would carry it on, as +-the largest finite |x| of
// the tensor. Such a frame has the flag "saturated". Finite tensors are sent as NAME sends them.
//
// Wraps any codec and stands last in a name. A tensor that is not finite
// takes a copy as scratch memory. A finite one costs nothing.
std::shared_ptr<const Codec> NewSaturatingCodec(std::shared_ptr<const Codec> inner,
                                                std::string_view name, float, Isa isa);

// Elements that this codec object has replaced so far; 0 for every other codec. Thread safe.
uint64_t SaturatedElements(const Codec& codec);

}  // namespace longhaul
