#pragma once

#include "compressors/cuda/block/block_launch.h"

// The parts of CudaDevice() that are large enough for a unit of their own.
namespace longhaul {

BlockLaunchTable CudaEncodeTable();
BlockLaunchTable CudaStochasticEncodeTable();
BlockLaunchTable CudaDecodeTable();

}  // namespace longhaul
