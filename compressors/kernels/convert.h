#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/tensor.h"

namespace longhaul {

// One element i of `in` as fp32, and back (RNE, finite values stay finite): for short tails, and
// the reference of Kernels::convert.
float LoadElement(const std::byte* in, DType dtype, size_t i);
void StoreElement(float value, std::byte* out, DType dtype, size_t i);

// Bits of the largest |x| as fp32; those of a NaN or Inf where one is among them.
uint32_t LargestBits(ConstTensor x);

}  // namespace longhaul
