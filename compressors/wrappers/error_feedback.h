#pragma once

#include <memory>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `NAME+ef`: encodes x + e and keeps e <- x + e - decode(frame), so what one frame loses the next
// ones carry. With decay beta: e <- beta e first (`+ef95` is beta = 0.95).
//
// The wire is the inner codec's, with flag "sender used EF"; decoding needs no state. `inner` must
// be stateless. The state holds the residual, fp32 (4 n bytes, saved); encoding takes 8 n bytes of
// scratch memory per thread (scratch.h). Encode without a state, or with one of another shape, is
// InvalidArgument.
std::shared_ptr<const Codec> NewErrorFeedbackCodec(std::shared_ptr<const Codec> inner,
                                                   std::string_view name, float decay, Isa isa);

}  // namespace longhaul
