#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"
#include "compressors/kernels/sign_levels.h"

namespace longhaul {

// One bit per element and a scale per block of 256, for outer deltas with error feedback. Bit = x
// >= 0
// (-0 too). Sums in the order of tree_sum.h, scales bf16.
//   `sign1`         xhat = +-s, s = mean|x|, which minimises the squared error (EF-signSGD)
//   `sign1-rms`     s = sqrt(mean x^2) (the wire of 1-bit Adam); adds energy on spiky tensors
//   `sign1-2level`  xhat = mean of the elements >= 0, or of those below (1-bit SGD, Seide 2014)
// Payload: low levels [blocks] bf16 (sign1-2level only), scales or high levels [blocks] bf16, bits:
// 32 bytes per full block, ceil(c / 8) for a row's short block. 1.0625 bits per element,
// sign1-2level 1.125. InvalidArgument when a block's sum is beyond fp32.
std::shared_ptr<const Codec> NewSignMeanCodec(std::string_view name, uint16_t id, Isa isa);
std::shared_ptr<const Codec> NewSignRmsCodec(std::string_view name, uint16_t id, Isa isa);
std::shared_ptr<const Codec> NewSignTwoLevelCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
