#pragma once

#include "tests/compressors/cuda_frames.h"

// Tensors that the statistical codecs' kernels tell apart, for the tests with and without a GPU.
namespace longhaul {

// Tables of all lengths and numbers that the statistical codecs' kernels tell apart.
inline void ExpectLongTablesAndManyOfThem(DevicePair& pair) {
  for (Shape shape : {Shape{1, 16 * 4096 + 77}, Shape{2, 8 * 4096}, Shape{130, 4096 + 40}}) {
    const auto values = Draw(Distribution::kStudentT4, shape.elements(), 17);
    for (DType dtype : kDTypes) {
      ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(OwnedTensor(values, shape, dtype).view()))
          << shape.rows << " x " << shape.cols << " of dtype " << int(dtype);
    }
  }
}

// All in one bin, and far outside of all bins.
inline void ExpectCrowdedBins(DevicePair& pair) {
  std::vector<float> values(40'000, 2.5f);
  ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, {1, 40'000}}));
  ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, {10, 4000}}));
  values[7] = values[20'000] = -1e30f;
  values[30'001] = values[30'002] = 3e30f;
  ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, {1, 40'000}}));
  ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, {10, 4000}}));
}

// Where the order in which chunks are added tells in the sum.
inline void ExpectChunksOfFarApartMagnitudes(DevicePair& pair) {
  for (size_t chunks : {3, 20}) {
    auto values = Draw(Distribution::kGaussian, chunks * 4096, 18);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= i / 4096 % 3 == 0 ? 1e-9f : i / 4096 % 3 == 1 ? 1e9f : 1.0f;
    }
    pair.ExpectEqual({values.data(), DType::kF32, {1, values.size()}});
  }
}

// Sums that no fp32 holds are told from elements that are not finite, wherever these are.
inline void ExpectSumsBeyondFp32(DevicePair& pair) {
  for (Shape shape : {Shape{1, 4096}, Shape{5, 9000}, Shape{1, 45'000}}) {
    std::vector<float> values(shape.elements(), 3e38f);
    values[0] = -3e38f;
    ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, shape}));
    values[shape.elements() - 5] = FromBits(kInfBits);
    ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, shape}));
  }
}

// Names of the codecs that they are about.
inline auto StatNames() {
  return testing::Values("stat2", "stat4", "stat8", "stat2-rows", "stat4-rows", "stat8-rows");
}

}  // namespace longhaul
