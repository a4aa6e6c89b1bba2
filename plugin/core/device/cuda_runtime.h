#pragma once

#include <memory>

#include "plugin/core/device/device_runtime.h"

namespace longhaul {

// CUDA's runtime for one GPU of this process.
std::shared_ptr<DeviceRuntime> NewCudaRuntime(int gpu);

}  // namespace longhaul
