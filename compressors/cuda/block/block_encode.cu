#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/team/launch.cuh"

namespace longhaul {

BlockLaunchTable CudaEncodeTable() {
  return MakeEncodeTable<CudaLauncher, Rounding::kNearest>(AllBlockSchemes());
}

}  // namespace longhaul
