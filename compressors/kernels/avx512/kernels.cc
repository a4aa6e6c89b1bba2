// AVX-512: sixteen lanes.
#include "compressors/kernels/avx512/lanes.h"
#include "compressors/kernels/lane_kernels.h"
#include "compressors/kernels/lanes.h"

namespace longhaul::avx512 {

static_assert(VectorLanes<Lanes>);

const Kernels& Table() {
  static constexpr Kernels kernels = MakeLaneKernels<Lanes>(
      std::make_index_sequence<kBlockSchemes.size()>(), std::make_index_sequence<9>());
  return kernels;
}

}  // namespace longhaul::avx512
