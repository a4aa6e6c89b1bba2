#pragma once

#include <cstring>

#include "compressors/kernels/prefetch.h"
#include "compressors/numbers/tree_sum.h"
#include "compressors/tensor.h"

// The loops of matrices; see loops.h. Every output adds its terms in one order, whatever the width
// of the lanes, so the results are the same bits on every instruction set.
namespace longhaul {

template <class L>
float LoopDot(const float* x, const float* y, size_t n) {
  return ChunkSum(
      n, [ x, y ](size_t i) __attribute__((always_inline)) { return x[i] * y[i]; });
}

template <class L>
void LoopAddScaled(const float* x, size_t n, float a, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

template <class L>
void LoopSumScaled(const float* x, float a, const float* y, size_t n, float* sum) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    const typename L::F by = L::Splat(a);
    for (; i + 16 <= n; i += 16) {
      PrefetchBehind(x + i);
      PrefetchBehind(y + i);
      for (size_t j = i; j < i + 16; j += L::kWidth) {
        const auto* more = reinterpret_cast<const std::byte*>(y + j);
        const typename L::F v =
            L::template Load<DType::kF32>(reinterpret_cast<const std::byte*>(x + j));
        L::template Store<DType::kF32>(L::Add(v, L::Mul(by, L::template Load<DType::kF32>(more))),
                                       reinterpret_cast<std::byte*>(sum + j));
      }
    }
  }
  for (; i < n; ++i) sum[i] = x[i] + a * y[i];
}

// kColumns: of every row, how many are computed.
template <size_t kColumns>
LONGHAUL_INLINE void MultiplyColumns(const float* a, const float* b, ProductSize size, float* c) {
  bool any[64];  // of a row of b: is not all zeros, and so adds something
  for (size_t k = 0; k < size.inner; ++k) {
    uint32_t bits = 0;
    for (size_t j = 0; j < kColumns; ++j) bits |= BitsOf(b[64 * k + j]) << 1;
    any[k] = bits != 0;
  }
  for (size_t i = 0; i < size.rows; ++i) {
    float row[kColumns] = {};
    for (size_t k = 0; k < size.inner; ++k) {
      const float s = a[64 * i + k];
      if (s == 0 || !any[k]) continue;
      for (size_t j = 0; j < kColumns; ++j) row[j] += s * b[64 * k + j];
    }
    std::memcpy(c + 64 * i, row, sizeof(row));
  }
}

template <class L>
void LoopMultiply64(const float* a, const float* b, ProductSize size, float* c) {
  if (size.columns <= 16) return MultiplyColumns<16>(a, b, size, c);
  MultiplyColumns<64>(a, b, size, c);
}

}  // namespace longhaul
