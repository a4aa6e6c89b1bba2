#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/launch.cuh"

namespace longhaul {

BlockLaunchTable CudaStochasticEncodeTable() {
  return MakeEncodeTable<CudaLauncher, Rounding::kStochastic>(AllBlockSchemes());
}

}  // namespace longhaul
