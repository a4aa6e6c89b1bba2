#include "compressors/kernels/loop_kernels.h"

#include "compressors/kernels/all_loops.h"

namespace longhaul {
namespace {

// One lane: the reference.
struct ScalarLanes {
  static constexpr size_t kWidth = 1;
  static uint32_t AtLeastMask(const float* x, uint32_t bits) {
    return (BitsOf(*x) & kAbsMask) >= bits ? 1 : 0;
  }
  static uint32_t NotNegativeMask(const float* x) { return *x >= 0 ? 1 : 0; }
};

}  // namespace

const LoopKernels& ScalarLoopKernels() {
  static constexpr LoopKernels kernels = MakeLoopKernels<ScalarLanes>();
  return kernels;
}

const LoopKernels& LoopKernelsOf(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return ScalarLoopKernels();
    case Isa::kAvx2:
      return Avx2LoopKernels();
    case Isa::kAvx512:
      return Avx512LoopKernels();
  }
  return ScalarLoopKernels();
}

}  // namespace longhaul
