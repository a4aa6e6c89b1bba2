#pragma once

#include "compressors/kernels/kernels.h"
#include "compressors/kernels/wide.h"

namespace longhaul {

// The largest |x| of a tensor of n elements, on all threads of the pool; Inf when it is not finite.
float TensorMax(const WideReader& reader, const Kernels& loops, size_t n);

}  // namespace longhaul
