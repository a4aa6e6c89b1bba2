// The codecs on a real GPU: frames and decoded values are those of the CPU, bit for bit. Skips with
// the reason where there is none. The kernels' arithmetic has its own test without a GPU
// (cuda_host_test.cc); this one is about what only a GPU can show: launches, streams, copies, how
// nvcc rounds.
#include "tests/compressors/cuda_device_memory.h"
#include "tests/compressors/cuda_selection_cases.h"

namespace longhaul {
namespace {

DeviceMemory* Gpu(std::string& why) {
  static std::string reason;
  static const std::unique_ptr<DeviceMemory> gpu = OpenGpu(reason);
  why = reason;
  return gpu.get();
}

class CudaGpuTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string why;
    gpu_ = Gpu(why);
    if (gpu_ == nullptr) GTEST_SKIP() << why;
    pair_ = std::make_unique<DevicePair>(GetParam(), *gpu_);
  }
  DeviceMemory* gpu_ = nullptr;
  std::unique_ptr<DevicePair> pair_;
};

TEST_P(CudaGpuTest, SizesAndDTypes) {
  for (Shape shape : {Shape{1, 1}, Shape{1, 63}, Shape{1, 64}, Shape{1, 65}, Shape{1, 1024},
                      Shape{1, 4097}, Shape{3, 130}, Shape{17, 192}, Shape{5, 97}, Shape{2, 8192},
                      Shape{64, 4096}, Shape{1, 1'000'003}}) {
    for (auto d : {Distribution::kStudentT4, Distribution::kOutlier}) {
      const auto values = Draw(d, shape.elements(), 11);
      for (DType dtype : kDTypes) {
        ASSERT_NO_FATAL_FAILURE(pair_->ExpectEqual(OwnedTensor(values, shape, dtype).view()))
            << shape.rows << " x " << shape.cols << " of dtype " << int(dtype);
      }
    }
  }
}

TEST_P(CudaGpuTest, TensorsThatAreAlignedAsTheirElementsOnly) {
  for (size_t skew : {1, 3, 4}) {
    const Shape shape = {2, 3072};
    const auto values = Draw(Distribution::kLaplace, shape.elements(), 13);
    for (DType dtype : kDTypes) {
      ASSERT_NO_FATAL_FAILURE(
          pair_->ExpectEqual(OwnedTensor(values, shape, dtype).view(), 18, skew));
    }
  }
}

TEST_P(CudaGpuTest, NaNIsRefusedAsOnTheCpu) {
  std::vector<float> values(5000, 1.0f);
  for (size_t at : {size_t{0}, size_t{63}, size_t{4096}, size_t{4999}}) {
    std::vector<float> bad = values;
    bad[at] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_NO_FATAL_FAILURE(pair_->ExpectEqual({bad.data(), DType::kF32, {1, bad.size()}}));
  }
}

// Conversions and roundings that the GPU has instructions for, where the host's text has none.
TEST_P(CudaGpuTest, EveryMagnitude) { ExpectAlikeInEveryMagnitude(*pair_, 60, size_t{1} << 14); }

TEST_P(CudaGpuTest, HostilePayloads) {
  ExpectAlikeOfHostilePayloads(*pair_, {3, 500}, 60);
  ExpectAlikeOfHostilePayloads(*pair_, {2, 4096}, 60);
}

INSTANTIATE_TEST_SUITE_P(Codecs, CudaGpuTest, testing::ValuesIn(DeviceTestNames()),
                         [](const auto& info) { return TestName(info.param); });

class CudaGpuSelection : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    gpu_ = Gpu(why);
    if (gpu_ == nullptr) GTEST_SKIP() << why;
  }
  DeviceMemory* gpu_ = nullptr;
};
TEST_F(CudaGpuSelection, ManyReachTheBoundOrAreEqual) { ExpectManyReachTheBoundOrAreEqual(*gpu_); }
TEST_F(CudaGpuSelection, PiecesOfEveryKind) { ExpectPiecesOfEveryKind(*gpu_); }
TEST_F(CudaGpuSelection, ManyThatAreNotFinite) { ExpectManyThatAreNotFinite(*gpu_); }

}  // namespace
}  // namespace longhaul
