#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/team/launch.cuh"

namespace longhaul {

BlockLaunchTable CudaStochasticEncodeTable() {
  return MakeEncodeTable<CudaLauncher, Rounding::kStochastic>(AllBlockSchemes());
}

}  // namespace longhaul
