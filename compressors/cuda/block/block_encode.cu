#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/launch.cuh"

namespace longhaul {

BlockLaunchTable CudaEncodeTable() {
  return MakeEncodeTable<CudaLauncher, Rounding::kNearest>(AllBlockSchemes());
}

}  // namespace longhaul
