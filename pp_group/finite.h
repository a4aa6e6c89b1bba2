#pragma once

#include <bit>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace longhaul {

// Whether no element of x (f32, contiguous, on the host) is NaN or Inf; without the copies that
// at::isfinite makes.
inline bool AllFinite(const at::Tensor& x) {
  constexpr uint32_t kExponent = 0x7F800000;
  const float* values = x.const_data_ptr<float>();
  uint32_t bad = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace longhaul
