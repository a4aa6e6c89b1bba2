#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/launch.cuh"

namespace longhaul {

BlockLaunchTable CudaDecodeTable() { return MakeDecodeTable<CudaLauncher>(AllBlockSchemes()); }

}  // namespace longhaul
