#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "pp_group/device_check.h"

namespace longhaul {

// Of what CheckDevice has passed. A GPU makes the whole process deterministic first.
at::Device DeviceOf(const ComputeSpec& compute);
at::ScalarType DtypeOf(const ComputeSpec& compute);

// For stages that share a GPU with others or are to be compared with them: torch's deterministic
// algorithms in their strict form, attention by its math kernel or, "fused", by those that keep no
// probabilities, no TF32, no cuDNN autotuning, and cuBLAS with a fixed workspace. To be called before
// the first product on a GPU; idempotent.
void RequireDeterminism(std::string_view attention);

}  // namespace longhaul
