#pragma once

#include <cstddef>

#include "compressors/tensor.h"

namespace longhaul {

// One element i of `in` as fp32, and back (RNE, finite values stay finite): for short tails, and
// the reference of Kernels::convert.
float LoadElement(const std::byte* in, DType dtype, size_t i);
void StoreElement(float value, std::byte* out, DType dtype, size_t i);

}  // namespace longhaul
