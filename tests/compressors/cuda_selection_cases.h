#pragma once

#include <cmath>

#include "tests/compressors/cuda_frames.h"

// Tensors that the selection kernels tell apart, for the tests with and without a GPU.
namespace longhaul {

// What decides how a selection kernel finds its elements: how many reach its first bound, where
// they are, how many are equal, how long a chunk is.
inline std::vector<std::vector<float>> SelectionPatterns(size_t elements) {
  const auto drawn = Draw(Distribution::kGaussian, elements, 19);
  std::vector<float> zeros(elements, 0.0f), equal(elements, -0.75f),
      few = zeros, ramp = zeros, crowd = drawn, coarse = drawn, last = equal;
  for (size_t i = 0; i < elements; ++i) {
    if (i % 611 == 5) few[i] = drawn[i];
    ramp[i] = static_cast<float>(i % 3000) / 4096 - 0.3f;
    if (i % 4096 >= 1000 && i % 4096 < 1700) crowd[i] = 5 + 0.001f * drawn[i];
    coarse[i] = std::round(drawn[i]);
  }
  last.back() = 0.5f;
  last[elements / 2] = 1.0f;
  return {zeros, equal, few, ramp, crowd, coarse, last, drawn};
}

inline void ExpectManyReachTheBoundOrAreEqual(DeviceMemory& memory) {
  for (const char* name : {"topk-64of4096+none", "topk-256of4096+none", "topk-32of512+none",
                           "topk-5of1000+none", "topk-256of65536+none", "topk-300of65536+none",
                           "topk-6of128+none", "topk-1of2+none", "topk-4000of4096+none"}) {
    DevicePair pair(name, memory);
    const bool long_chunks = std::string_view(name).find("65536") != std::string_view::npos;
    const Shape shape = long_chunks ? Shape{1, 66'000} : Shape{2, 5000};
    int pattern = 0;
    for (const auto& values : SelectionPatterns(shape.elements())) {
      for (DType dtype : kDTypes) {
        ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(OwnedTensor(values, shape, dtype).view()))
            << name << " of dtype " << int(dtype) << ", pattern " << pattern;
      }
      ++pattern;
    }
  }
}

// Chunks of one piece, of several, and several of a piece; rows of whole chunks and with short ones.
inline void ExpectPiecesOfEveryKind(DeviceMemory& memory) {
  for (const char* name : {"topk-1of4+none", "topk-4097of9000+none", "topk-7of16384+none"}) {
    DevicePair pair(name, memory);
    for (Shape shape : {Shape{2, 16'384}, Shape{5, 4101}, Shape{1, 65'536}, Shape{1, 70'001}}) {
      const auto values = Draw(Distribution::kLaplace, shape.elements(), 20);
      const OwnedTensor x(values, shape, DType::kBF16);
      ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(x.view(), 7, 1)) << name << ", " << shape.cols;
      ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual({values.data(), DType::kF32, shape}, 8));
    }
  }
}

// Refused, and nothing is written beyond what is kept: the fence would tell.
inline void ExpectManyThatAreNotFinite(DeviceMemory& memory) {
  for (const char* name :
       {"topk-64of4096+none", "topk-1of2+none", "topk-30of100+none", "topk-410of4096+none"}) {
    DevicePair pair(name, memory);
    for (uint32_t bits : {0x7F800000u, 0x7FFFFFFFu, 0xFF800001u}) {
      const std::vector<float> values(9000, FromBits(bits));
      for (DType dtype : kDTypes) {
        ASSERT_NO_FATAL_FAILURE(pair.ExpectEqual(OwnedTensor(values, {1, 9000}, dtype).view()));
      }
    }
  }
}

}  // namespace longhaul
