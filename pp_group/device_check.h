#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "pp_group/models/model_spec.h"

namespace longhaul {

// Torch-free. A process that has asked after a GPU must not fork others that use one.
//
// InvalidArgument: no such name, or a dtype that is neither. FailedPrecondition: this torch or this
// machine has no such device; says how many there are.
absl::Status CheckDevice(const ComputeSpec& compute);

// ResourceExhausted: a GPU with less than `bytes` free; says both. Nothing is asked of the CPU.
absl::Status CheckDeviceMemory(const ComputeSpec& compute, int64_t bytes);

}  // namespace longhaul
