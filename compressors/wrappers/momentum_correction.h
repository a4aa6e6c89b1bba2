#pragma once

#include <memory>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `dgc` (Deep Gradient Compression, arXiv 1712.01887): momentum correction and factor masking
// around a sparse codec. With momentum m: u <- m u + x, v <- v + u, sends v; where the receiver
// gets something (its value is not 0), u and v become 0. What is not sent accumulates in v with its
// momentum, so the optimizer behind it runs without one.
//
// The wire is the inner codec's, with flag "sender used EF"; decoding needs no state. The state
// holds u and v (8 n bytes, saved); encoding takes 12 n bytes of scratch memory per thread.
// Clipping and the warm-up of the density are for the training loop.
std::shared_ptr<const Codec> NewMomentumCorrectionCodec(std::shared_ptr<const Codec> inner,
                                                        std::string_view name, float momentum,
                                                        Isa isa);

}  // namespace longhaul
