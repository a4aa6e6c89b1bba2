#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "pp_group/device_check.h"
#include "pp_group/models/model.h"

namespace longhaul {

at::ScalarType DtypeOf(const ComputeSpec& compute);

// Until what has been queued for it on this thread's stream is done.
void WaitForDevice(at::Device device);

// Throws where the device has no products of this dtype, with what to ask for in its place.
void RequireProducts(at::Device device, at::ScalarType dtype);

// For stages that share a GPU with others or are to be compared with them: torch's deterministic
// algorithms in their strict form, attention by its math kernel or, "fused", by those that keep no
// probabilities, no TF32, no cuDNN autotuning, and cuBLAS with a fixed workspace. To be called before
// the first product on a GPU; idempotent.
void RequireDeterminism(std::string_view attention);

}  // namespace longhaul
