#pragma once

#include <cstddef>

namespace longhaul {

// The orthonormal DCT-II of n points, 1 <= n <= 64, as matrices of 64 x 64 whose rows and columns
// beyond n are zero: forward[64 k + t] = sqrt(2 / n) c_k cos(pi (2t + 1) k / 2n), c_0 = 1 / sqrt 2,
// and its transpose. Made once per n without libm, by a fixed polynomial in double, so that every
// machine has the same bits. Thread safe.
struct DctMatrix {
  float forward[64 * 64];
  float inverse[64 * 64];
};
const DctMatrix& DctMatrixOf(size_t n);

}  // namespace longhaul
