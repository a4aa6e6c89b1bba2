#include "compressors/kernels/block_kernels.h"

#include "compressors/kernels/avx512/lanes.h"
#include "compressors/kernels/lane_fp4.h"
#include "compressors/kernels/lane_kernels.h"

namespace longhaul {

const BlockKernelTable& Avx512BlockKernels() {
  static constexpr BlockKernelTable table =
      MakeBlockKernels<Avx512Lanes>(std::make_index_sequence<kBlockSchemes.size()>());
  return table;
}

const Fp4Kernels& Avx512Fp4Kernels() {
  static constexpr Fp4Kernels kernels = MakeFp4Kernels<Avx512Lanes>();
  return kernels;
}

}  // namespace longhaul
