// PowerSGD's kernels on a real GPU: what cuda_low_rank_test.cc expects on the host, and matrices
// that fill a GPU. Skips with the reason where there is none.
#include "tests/compressors/cuda_device_memory.h"
#include "tests/compressors/cuda_low_rank.h"

namespace longhaul {
namespace {

class CudaLowRankGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    gpu_ = OpenGpu(why);
    if (gpu_ == nullptr) GTEST_SKIP() << why;
    cases_ = LowRankCases();
    for (uint32_t rank : {1u, 2u, 3u, 4u, 6u, 9u}) {
      cases_.push_back({4360, 4500, 77, rank, 0});
      cases_.push_back({4500, 4360, 0, rank, 0});
    }
  }
  std::unique_ptr<DeviceMemory> gpu_;
  std::vector<LowRankCase> cases_;
};

TEST_F(CudaLowRankGpuTest, Project) {
  ForEachLowRankCase(*gpu_, cases_, [](LowRankPair& pair) { pair.ExpectProjects(); });
}

TEST_F(CudaLowRankGpuTest, ProjectBack) {
  ForEachLowRankCase(*gpu_, cases_, [](LowRankPair& pair) { pair.ExpectProjectsBack(); });
}

TEST_F(CudaLowRankGpuTest, OrthonormalColumnsAndDependentOnesZero) {
  cases_.push_back({100'000, 1, 0, 4, 0});
  ForEachLowRankCase(*gpu_, cases_, [](LowRankPair& pair) { pair.ExpectOrthogonalizes(); });
}

TEST_F(CudaLowRankGpuTest, Reconstruct) {
  for (DType to : kDTypes) {
    ForEachLowRankCase(*gpu_, cases_, [to](LowRankPair& pair) { pair.ExpectReconstructs(to); });
  }
}

TEST_F(CudaLowRankGpuTest, ReconstructReportsWhatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    ForEachLowRankCase(*gpu_, {{40, 37, 11, 3, 0}, {37, 520, 0, 2, 0}},
                       [bad](LowRankPair& pair) { pair.ExpectReportsFault(bad); });
    ForEachLowRankCase(*gpu_, {{1, 37, 11, 3, 0}, {1, 520, 8, 2, 0}, {1, 525, 2, 2, 0}},
                       [bad](LowRankPair& pair) { pair.ExpectIgnores(bad); });
  }
}

}  // namespace
}  // namespace longhaul
