#pragma once

#include <memory>
#include <string>

#include "tests/compressors/cuda_frames.h"

namespace longhaul {

// A GPU's memory and a stream of it; nullptr with the reason in `why` where there is no GPU.
std::unique_ptr<DeviceMemory> OpenGpu(std::string& why);

}  // namespace longhaul
