#pragma once

#include <memory>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `NAME+ef21` (EF21, arXiv 2106.05203): both ends hold g. Sends C(x - g), then g += decode on both
// ends; decodes to g. The first frame holds C(x) and fills the receiver's g. The wire is NAME's
// with the flag "first visit" or "difference" and, for a difference, the tag of g (mirror.h).
//
// `inner` must be stateless. Each end keeps 4 n bytes; encoding takes 8 n bytes of scratch memory,
// decoding 8 n and a copy of the frame. Encode without a state is InvalidArgument; Decode without
// one is good for first frames only.
std::shared_ptr<const Codec> NewEf21Codec(std::shared_ptr<const Codec> inner, std::string_view name,
                                          float, Isa isa);

}  // namespace longhaul
