#include "compressors/loop_kernels.h"

#include "compressors/all_loops.h"
#include "compressors/avx2/lanes.h"

namespace longhaul {

const LoopKernels& Avx2LoopKernels() {
  static constexpr LoopKernels kernels = MakeLoopKernels<Avx2Lanes>();
  return kernels;
}

}  // namespace longhaul
