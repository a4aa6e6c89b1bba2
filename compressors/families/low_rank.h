#pragma once

#include <cstddef>
#include <span>

#include "compressors/codec.h"
#include "compressors/kernels/kernels.h"

// Low-rank factors M ~ P Q^T by one step of subspace iteration (PowerSGD, arXiv 1905.13727), for
// the codecs that send them and for rounds that reduce P and Q instead. P: [rows, rank], Q: [cols,
// rank], fp32, stored column after column. All sums have a fixed order.
namespace longhaul {

// A tensor as the matrix M. A tensor of one row (a stage's parameters in one piece) is folded into
// a square: cols = ceil(sqrt(n)), its last row filled up with zeros that are not there.
struct LowRankView {
  explicit LowRankView(Shape shape);
  size_t RowLength(size_t i) const { return i + 1 < rows ? cols : elements - i * cols; }
  size_t rows, cols, elements;
};

constexpr size_t kMaxLowRank = 64;

// The largest rank <= most whose factors are less than half of the tensor: (rows + cols) 2 r <
// rows cols. 0: none, or fewer than 4096 elements; such a tensor is sent as it is.
size_t LowRankFor(const LowRankView& view, size_t most);

// A power of two that brings the largest |m| into [2, 4), so that nothing over- or underflows; 0
// when all are zero.
float LowRankScale(const Kernels& kernels, std::span<const float> m);

// P = scale M Q.
void Project(const Kernels& kernels, const LowRankView& view, const float* m, float scale,
             std::span<const float> q, std::span<float> p);
// Q = scale M^T P.
void ProjectBack(const Kernels& kernels, const LowRankView& view, const float* m, float scale,
                 std::span<const float> p, std::span<float> q);

// Makes the columns of `rows` elements orthonormal, in order (Gram-Schmidt, twice). A column that
// depends on those before it, to 1e-5 of its length, becomes zero.
void Orthogonalize(const Kernels& kernels, std::span<float> p, size_t rows);

// Columns of `cols` elements: unit length, and one that is zero is drawn anew (Philox, purpose 4,
// key 0), so that all replicas start alike.
void WarmStart(const Kernels& kernels, std::span<float> q, size_t cols);

// ||column||^2, and the dot product of any length.
double LongDot(const Kernels& kernels, const float* x, const float* y, size_t n);

// x = P Q^T, terms in the order of columns; false when an element is not finite.
bool Reconstruct(const Kernels& kernels, const LowRankView& view, std::span<const float> p,
                 std::span<const float> q, Tensor x);

// x from fp32, as a tensor without factors is sent; false when one is NaN or Inf.
bool ReadDense(const Kernels& kernels, const std::byte* values, Tensor x);

// sum = x + e; false when x holds NaN or Inf, `finite` false when the sum does.
bool AddResidual(const Kernels& kernels, ConstTensor x, const float* e, float* sum, bool& finite);

}  // namespace longhaul
