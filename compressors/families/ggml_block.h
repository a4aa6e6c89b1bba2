#pragma once

#include <memory>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `q8_0` and `q4_0`: the blocks of 32 of ggml, byte for byte, so that they can be checked against
// it (and against it only: the scale is quantized with before it is rounded to fp16, and it
// underflows).
//
// Payload: the blocks in row order, without gaps.
//   q8_0   fp16 d = max|x| / 127, then the codes, i8, round half away from zero of x / d
//   q4_0   fp16 d = m / -8 with m the signed element of largest magnitude (the first on ties), then
//          16 bytes, byte j = code j | code (j + 16) << 4, code = min(15, int(x / d + 8.5)),
//          xhat = (code - 8) d
// Every step is rounded to fp32, as in the gguf package's numpy reference (ggml's C differs where
// it is compiled with fused multiply-add). A row's short block of c has c codes (q8_0) or
// h = ceil(c / 2) bytes,
// byte j = code j | code (j + h) << 4 (q4_0). 8.5 and 4.5 bits per element. InvalidArgument when d
// is beyond fp16.
std::shared_ptr<const Codec> NewQ8Codec(std::string_view name, uint16_t id, Isa isa);
std::shared_ptr<const Codec> NewQ4Codec(std::string_view name, uint16_t id, Isa isa);

}  // namespace longhaul
