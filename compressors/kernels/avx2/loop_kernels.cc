#include "compressors/kernels/loop_kernels.h"

#include "compressors/kernels/all_loops.h"
#include "compressors/kernels/avx2/lanes.h"

namespace longhaul {

const LoopKernels& Avx2LoopKernels() {
  static constexpr LoopKernels kernels = MakeLoopKernels<Avx2Lanes>();
  return kernels;
}

}  // namespace longhaul
