#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "compressors/codec.h"
#include "compressors/isa.h"

namespace longhaul {

// `none`: the source's own bytes, 32 or 16 bits per element, exact.
std::shared_ptr<const Codec> NewIdentityCodec(std::string_view name, uint16_t id, Isa isa);

// `bf16`, `fp16`: 16 bits per element, RNE; beyond the largest finite value (3.39e38, 65504)
// clamped. Relative error at most 2^-9 (bf16) or 2^-12 (fp16, down to 2^-14; below, absolute
// 2^-25).
std::shared_ptr<const Codec> NewBf16Codec(std::string_view name, uint16_t id, Isa isa);
std::shared_ptr<const Codec> NewFp16Codec(std::string_view name, uint16_t id, Isa isa);

struct CastForm {
  std::optional<DType> wire;  // nothing: the source's
};
// nullopt when it is none of them.
std::optional<CastForm> CastFormOf(const Codec& codec);

}  // namespace longhaul
