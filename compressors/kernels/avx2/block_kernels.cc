#include "compressors/kernels/block_kernels.h"

#include "compressors/kernels/avx2/lanes.h"
#include "compressors/kernels/lane_fp4.h"
#include "compressors/kernels/lane_kernels.h"

namespace longhaul {

const BlockKernelTable& Avx2BlockKernels() {
  static constexpr BlockKernelTable table =
      MakeBlockKernels<Avx2Lanes>(std::make_index_sequence<kBlockSchemes.size()>());
  return table;
}

const Fp4Kernels& Avx2Fp4Kernels() {
  static constexpr Fp4Kernels kernels = MakeFp4Kernels<Avx2Lanes>();
  return kernels;
}

}  // namespace longhaul
