#include "compressors/families/low_rank.h"

#include <algorithm>
#include <cmath>

#include "compressors/kernels/convert.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/noise.h"
#include "compressors/numbers/scratch.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/numbers/tree_sum.h"

namespace longhaul {
namespace {

constexpr size_t kSmallTensor = 4096;

size_t CeilSqrt(size_t n) {
  auto root = static_cast<size_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= n) --root;
  return std::max<size_t>(1, root);
}

// Calls visit(i, row) with every row of scale * M, filled up to cols.
template <typename Visit>
void ForEachRow(const LowRankView& view, const float* m, float scale, Visit visit) {
  const std::span<float> row = Scratch<float, ScratchUse::kWide>(view.cols);
  for (size_t i = 0; i < view.rows; ++i) {
    const size_t c = view.RowLength(i);
    for (size_t k = 0; k < c; ++k) row[k] = scale * m[i * view.cols + k];
    std::fill(row.begin() + static_cast<ptrdiff_t>(c), row.end(), 0.0f);
    visit(i, row.data());
  }
}

}  // namespace

LowRankView::LowRankView(Shape shape)
    : rows(shape.rows), cols(std::max<size_t>(1, shape.cols)), elements(shape.elements()) {
  if (rows != 1 || elements >> 56 != 0) return;
  cols = CeilSqrt(elements);
  rows = (elements + cols - 1) / cols;
}

size_t LowRankFor(const LowRankView& view, size_t most) {
  if (view.elements < kSmallTensor || view.elements >> 56 != 0) return 0;
  size_t rank = std::min(most, kMaxLowRank);
  while (rank > 0 && (view.rows + view.cols) * 2 * rank >= view.rows * view.cols) --rank;
  return rank;
}

float LowRankScale(const Kernels& kernels, std::span<const float> m) {
  const uint32_t exponent = std::max(kernels.abs_max(m.data(), m.size()), 1u << 23) >> 23;
  const bool zero = kernels.abs_max(m.data(), m.size()) == 0;
  return zero ? 0.0f : FromBits((255 - exponent) << 23);  // 2^(128 - exponent)
}

double LongDot(const Kernels& kernels, const float* x, const float* y, size_t n) {
  double sum = 0;
  for (size_t at = 0; at < n; at += kSumChunk) {
    sum += kernels.dot(x + at, y + at, std::min(kSumChunk, n - at));
  }
  return sum;
}

void Project(const Kernels& kernels, const LowRankView& view, const float* m, float scale,
             std::span<const float> q, std::span<float> p) {
  const size_t rank = q.size() / view.cols;
  ForEachRow(view, m, scale, [&](size_t i, const float* row) {
    for (size_t j = 0; j < rank; ++j) {
      p[j * view.rows + i] =
          static_cast<float>(LongDot(kernels, row, q.data() + j * view.cols, view.cols));
    }
  });
}

void ProjectBack(const Kernels& kernels, const LowRankView& view, const float* m, float scale,
                 std::span<const float> p, std::span<float> q) {
  const size_t rank = q.size() / view.cols;
  std::fill(q.begin(), q.end(), 0.0f);
  ForEachRow(view, m, scale, [&](size_t i, const float* row) {
    for (size_t j = 0; j < rank; ++j) {
      kernels.add_scaled(row, view.cols, p[j * view.rows + i], q.data() + j * view.cols);
    }
  });
}

void Orthogonalize(const Kernels& kernels, std::span<float> p, size_t rows) {
  for (size_t j = 0; j < p.size() / rows; ++j) {
    float* column = p.data() + j * rows;
    const double before = std::sqrt(LongDot(kernels, column, column, rows));
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t i = 0; i < j; ++i) {
        const float* other = p.data() + i * rows;
        const auto along = static_cast<float>(LongDot(kernels, other, column, rows));
        kernels.add_scaled(other, rows, -along, column);
      }
    }
    const double after = std::sqrt(LongDot(kernels, column, column, rows));
    const float inverse = after > 1e-5 * before ? static_cast<float>(1 / after) : 0.0f;
    for (size_t k = 0; k < rows; ++k) column[k] = inverse == 0 ? 0.0f : column[k] * inverse;
  }
}

void WarmStart(const Kernels& kernels, std::span<float> q, size_t cols) {
  for (size_t j = 0; j < q.size() / cols; ++j) {
    float* column = q.data() + j * cols;
    double squares = LongDot(kernels, column, column, cols);
    if (!(squares > 0)) {
      NoiseStream words(0, NoisePurpose::kFixedMatrix, j * cols);
      for (size_t k = 0; k < cols; ++k) column[k] = 2 * UniformOf(words.Next()) - 1;
      squares = LongDot(kernels, column, column, cols);
    }
    const float inverse = squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0f;
    for (size_t k = 0; k < cols; ++k) column[k] *= inverse;
  }
}

bool Reconstruct(const Kernels& kernels, const LowRankView& view, std::span<const float> p,
                 std::span<const float> q, Tensor x) {
  const NarrowWriter writer(x, kernels);
  const std::span<float> row = Scratch<float, ScratchUse::kWide>(view.cols);
  for (size_t i = 0; i < view.rows; ++i) {
    const size_t c = view.RowLength(i);
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t j = 0; j < q.size() / view.cols; ++j) {
      kernels.add_scaled(q.data() + j * view.cols, c, p[j * view.rows + i], row.data());
    }
    if (kernels.abs_max(row.data(), c) >= kInfBits) return false;
    writer.Write(row.data(), i * view.cols, c);
  }
  return true;
}

bool ReadDense(const Kernels& kernels, const std::byte* values, Tensor x) {
  return kernels.Converter(DType::kF32, x.dtype)(values, x.shape.elements(),
                                                 static_cast<std::byte*>(x.values));
}

bool AddResidual(const Kernels& kernels, ConstTensor x, const float* e, float* sum, bool& finite) {
  const size_t n = x.shape.elements();
  if (!WideReader(x, kernels).Read(0, n, sum)) return false;
  kernels.add_scaled(e, n, 1.0f, sum);
  finite = kernels.abs_max(sum, n) < kInfBits;
  return true;
}

}  // namespace longhaul
