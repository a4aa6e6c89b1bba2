#pragma once

#include <cstdint>
#include <span>

#include "compressors/kernels/kernels.h"

namespace longhaul {

// Finds the k largest magnitudes of one chunk after the other. Exact: ties go to the lowest index,
// and what earlier chunks taught only decides the speed.
class TopKSelector {
 public:
  explicit TopKSelector(const Kernels& kernels) : kernels_(kernels) {}

  // x: [n], n <= 65536; indices: [k], 1 <= k <= n, sorted on return. False: NaN or Inf is in x.
  bool Select(std::span<const float> x, std::span<uint32_t> indices);

 private:
  uint32_t FirstGuess(std::span<const float> x, size_t k, uint32_t* found,
                      uint32_t* magnitudes) const;

  const Kernels& kernels_;
  uint32_t margin_ = 1u << 20;  // from one chunk's k-th magnitude down to the next one's guess
  uint32_t guess_ = 0;  // bits of a magnitude that a little more than k elements reached so far
};

}  // namespace longhaul
