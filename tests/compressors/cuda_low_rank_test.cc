// PowerSGD's kernels on the host (cuda_host_team.h) against plain loops that add in the same order.
#include <cmath>

#include "compressors/cuda/low_rank_launch.h"
#include "compressors/small_floats.h"
#include "compressors/tree_sum.h"
#include "tests/compressors/cuda_host_team.h"
#include "tests/compressors/tensors.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

using Floats = std::vector<float>;

double LongDot(const float* x, const float* y, size_t n) {
  double sum = 0;
  for (size_t at = 0; at < n; at += kSumChunk) {
    sum += ChunkSum(std::min(kSumChunk, n - at), [&](size_t i) { return x[at + i] * y[at + i]; });
  }
  return sum;
}

struct Matrix {
  Matrix(size_t rows, size_t cols, size_t missing, uint32_t rank, uint64_t seed)
      : rows(rows),
        cols(cols),
        rank(rank),
        p(rank * rows),
        q(rank * cols),
        totals(rows / 4096 + 1) {
    m = Draw(Distribution::kGaussian, rows * cols - missing, seed);
    m.resize(rows * cols - missing);
    padded = m;
    padded.resize(rows * cols, 0.0f);
  }
  LowRankRun Run(float scale) {
    return {.m = m.data(),
            .rows = rows,
            .cols = cols,
            .elements = m.size(),
            .rank = rank,
            .scale = scale,
            .p = p.data(),
            .q = q.data(),
            .totals = totals.data(),
            .x = nullptr,
            .report = &report};
  }
  size_t rows, cols;
  uint32_t rank;
  Floats m, padded, p, q, totals;
  DeviceReport report = {.fault = kNoFault, .reserved = {}};
};

class CudaLowRankTest : public testing::TestWithParam<HostOrder> {
 protected:
  void SetUp() override { host_order = GetParam(); }
  const LowRankLaunchers& launch_ = *HostDevice().low_rank;
};

TEST_P(CudaLowRankTest, Project) {
  for (uint32_t rank : {1u, 3u, 6u}) {
    Matrix a(7, 5000, 123, rank, 1);
    a.q = Draw(Distribution::kGaussian, a.q.size(), 2);
    ASSERT_EQ(launch_.project(a.Run(0.5f), nullptr), 0);
    for (size_t j = 0; j < rank; ++j) {
      for (size_t i = 0; i < a.rows; ++i) {
        Floats row(a.padded.begin() + static_cast<ptrdiff_t>(i * a.cols),
                   a.padded.begin() + static_cast<ptrdiff_t>((i + 1) * a.cols));
        for (float& v : row) v *= 0.5f;
        const double dot = LongDot(row.data(), &a.q[j * a.cols], a.cols);
        ASSERT_EQ(BitsOf(a.p[j * a.rows + i]), BitsOf(static_cast<float>(dot)));
      }
    }
  }
}

TEST_P(CudaLowRankTest, ProjectBack) {
  Matrix a(70, 33, 5, 5, 3);
  a.p = Draw(Distribution::kGaussian, a.p.size(), 4);
  ASSERT_EQ(launch_.project_back(a.Run(2.0f), nullptr), 0);
  for (size_t j = 0; j < a.rank; ++j) {
    for (size_t c = 0; c < a.cols; ++c) {
      float sum = 0;
      for (size_t i = 0; i < a.rows; ++i)
        sum += a.p[j * a.rows + i] * (2.0f * a.padded[i * a.cols + c]);
      ASSERT_EQ(BitsOf(a.q[j * a.cols + c]), BitsOf(sum));
    }
  }
}

TEST_P(CudaLowRankTest, OrthonormalColumnsAndDependentOnesZero) {
  Matrix a(9000, 2, 0, 4, 5);
  a.p = Draw(Distribution::kGaussian, a.p.size(), 6);
  for (size_t i = 0; i < a.rows; ++i) a.p[2 * a.rows + i] = 3 * a.p[i] - a.p[a.rows + i];
  ASSERT_EQ(launch_.orthogonalize(a.Run(1), nullptr), 0);
  for (size_t j = 0; j < a.rank; ++j) {
    for (size_t k = 0; k <= j; ++k) {
      const double dot = LongDot(&a.p[j * a.rows], &a.p[k * a.rows], a.rows);
      EXPECT_NEAR(dot, j == k && j != 2 ? 1 : 0, 1e-5) << j << ", " << k;
    }
  }
}

TEST_P(CudaLowRankTest, Reconstruct) {
  Matrix a(40, 37, 11, 3, 7);
  a.p = Draw(Distribution::kGaussian, a.p.size(), 8);
  a.q = Draw(Distribution::kGaussian, a.q.size(), 9);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    OwnedTensor want({1, a.m.size()}, dtype), got({1, a.m.size()}, dtype);
    for (size_t at = 0; at < a.m.size(); ++at) {
      float sum = 0;
      for (size_t j = 0; j < a.rank; ++j) {
        sum += a.p[j * a.rows + at / a.cols] * a.q[j * a.cols + at % a.cols];
      }
      StoreElement(sum, want.bytes.data(), dtype, at);
    }
    LowRankRun run = a.Run(1);
    run.x = got.bytes.data();
    ASSERT_EQ(launch_.reconstruct[static_cast<size_t>(dtype)](run, nullptr), 0);
    EXPECT_EQ(want.bytes, got.bytes);
    EXPECT_EQ(a.report.fault, kNoFault);
  }
  a.p[5] = std::numeric_limits<float>::infinity();
  Floats out(a.m.size());
  LowRankRun run = a.Run(1);
  run.x = reinterpret_cast<std::byte*>(out.data());
  ASSERT_EQ(launch_.reconstruct[0](run, nullptr), 0);
  EXPECT_NE(a.report.fault, kNoFault);
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaLowRankTest,
                         testing::Values(HostOrder::kAscending, HostOrder::kDescending,
                                         HostOrder::kShuffled));

}  // namespace
}  // namespace longhaul
