#include "compressors/cuda/block/block_tables.h"
#include "compressors/cuda/team/launch.cuh"

namespace longhaul {

BlockLaunchTable CudaDecodeTable() { return MakeDecodeTable<CudaLauncher>(AllBlockSchemes()); }

}  // namespace longhaul
