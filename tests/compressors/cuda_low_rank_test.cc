// PowerSGD's kernels on the host (cuda_host_team.h): every sum is that of the CPU, bit for bit, in
// whatever order threads and teams run.
#include "tests/compressors/cuda_low_rank.h"
#include "tests/compressors/cuda_host_memory.h"

namespace longhaul {
namespace {

class CudaLowRankTest : public testing::TestWithParam<HostOrder> {
 protected:
  void SetUp() override { host_order = GetParam(); }
  HostMemory memory_;
};

TEST_P(CudaLowRankTest, Project) {
  ForEachLowRankCase(memory_, LowRankCases(), [](LowRankPair& pair) { pair.ExpectProjects(); });
}

TEST_P(CudaLowRankTest, ProjectBack) {
  ForEachLowRankCase(memory_, LowRankCases(), [](LowRankPair& pair) { pair.ExpectProjectsBack(); });
}

TEST_P(CudaLowRankTest, OrthonormalColumnsAndDependentOnesZero) {
  ForEachLowRankCase(memory_, LowRankCases(),
                     [](LowRankPair& pair) { pair.ExpectOrthogonalizes(); });
}

TEST_P(CudaLowRankTest, Reconstruct) {
  for (DType to : kDTypes) {
    ForEachLowRankCase(memory_, LowRankCases(),
                       [to](LowRankPair& pair) { pair.ExpectReconstructs(to); });
  }
}

TEST_P(CudaLowRankTest, ReconstructReportsWhatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    ForEachLowRankCase(memory_, {{40, 37, 11, 3, 0}, {37, 520, 0, 2, 0}},
                       [bad](LowRankPair& pair) { pair.ExpectReportsFault(bad); });
    ForEachLowRankCase(memory_, {{1, 37, 11, 3, 0}, {1, 520, 8, 2, 0}, {1, 525, 2, 2, 0}},
                       [bad](LowRankPair& pair) { pair.ExpectIgnores(bad); });
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaLowRankTest,
                         testing::Values(HostOrder::kAscending, HostOrder::kDescending,
                                         HostOrder::kShuffled));

}  // namespace
}  // namespace longhaul
