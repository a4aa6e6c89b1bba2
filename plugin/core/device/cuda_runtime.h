#pragma once

#include "plugin/core/device/device_runtime.h"

namespace longhaul {

// CUDA's runtime for one GPU of this process. Made once per GPU, never destroyed.
DeviceRuntime& CudaRuntimeOf(int gpu);

}  // namespace longhaul
