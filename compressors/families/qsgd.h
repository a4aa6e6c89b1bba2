#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `qsgd4`, `qsgd8` (QSGD, arXiv 1610.02132): buckets of a row, norm v fp32, step = v / s; level =
// min(s, floor(|x| / step + u)), u uniform in [0, 1) by the frame's seed and the element's number
// (noise.h), so that the expectation is x; xhat = +-level step.
//   qsgd4   buckets of 512, v = max|x|, s = 7      4.0625 bits per element
//   qsgd8   buckets of 8192, v = ||x||_2, s = 127  8.004 bits; its variance is at most min(d / s^2,
//           sqrt(d) / s) ||x||^2 for d elements
// A bucket whose step is below 2^-126 is zero. No error feedback: the codec is unbiased.
//
// Payload: v [buckets] f32; codes, full bucket k B / 8 bytes, short bucket of c ceil(c k / 8): the
// level in the low k - 1 bits, the sign above. InvalidArgument when a norm is beyond fp32.
template <int kBits>
std::shared_ptr<const Codec> NewQsgdCodec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
