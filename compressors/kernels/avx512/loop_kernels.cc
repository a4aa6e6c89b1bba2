#include "compressors/kernels/loop_kernels.h"

#include "compressors/kernels/all_loops.h"
#include "compressors/kernels/avx512/lanes.h"

namespace longhaul {

const LoopKernels& Avx512LoopKernels() {
  static constexpr LoopKernels kernels = MakeLoopKernels<Avx512Lanes>();
  return kernels;
}

}  // namespace longhaul
