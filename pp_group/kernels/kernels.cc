#include "pp_group/kernels/kernels.h"

#include "pp_group/kernels/tables.h"

namespace longhaul {

size_t AttentionShape::scratch_elements() const {
  const size_t t = (context + 15) / 16 * 16, h = (head_width + 15) / 16 * 16;
  // Seven [T, head_width] arrays (q, k and its transpose, v and its transpose, dout, one result
  // row block) and two [T, T] (probabilities and their gradient), each on a cache line.
  return 7 * t * h + 2 * t * t + t + 16;
}

const Kernels& PlainKernels() { return kPlainKernels; }

const Kernels* Avx2Kernels() {
#if defined(__x86_64__)
  static const bool usable = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return usable ? &kAvx2Kernels : nullptr;
#else
  return nullptr;
#endif
}

const Kernels& BestKernels() {
  const Kernels* avx2 = Avx2Kernels();
  return avx2 ? *avx2 : PlainKernels();
}

}  // namespace longhaul
