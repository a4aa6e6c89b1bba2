#include "compressors/kernels/kernels.h"

namespace longhaul {

const Kernels& KernelsOf(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return scalar::Table();
    case Isa::kAvx2:
      return avx2::Table();
    case Isa::kAvx512:
      return avx512::Table();
  }
  return scalar::Table();
}

}  // namespace longhaul
