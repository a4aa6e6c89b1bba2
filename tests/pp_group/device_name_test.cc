#include "pp_group/device_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Words(const absl::Status& status) { return std::string(status.message()); }

TEST(DeviceName, FourFormsAndNoOther) {
  for (const char* name : {"cpu", "cuda", "cuda:0", "cuda:15", "cuda:*"}) {
    EXPECT_EQ(CheckDeviceName(name), absl::OkStatus()) << name;
  }
  for (const char* name : {"", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:+1", "cuda:01", "cuda: 1",
                           "cuda:1 ", "cuda:9999", "cuda:1.0", "cuda:**", "cuda*", "cuda:*:1"}) {
    const absl::Status status = CheckDeviceName(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(Words(status),
              "device '" + std::string(name) + "', want cpu, cuda, cuda:N or cuda:*");
  }
}

TEST(DeviceName, RanksTakeTheGpusInTurn) {
  std::vector<int> of_three;
  for (int rank = 0; rank < 7; ++rank) of_three.push_back(*GpuOfRank("cuda:*", rank, 3));
  EXPECT_THAT(of_three, ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_EQ(GpuOfRank("cuda:*", 1023, 1), 0);
  EXPECT_EQ(GpuOfRank("cuda", 5, 3), 0);
  EXPECT_EQ(GpuOfRank("cuda:2", 5, 3), 2);
  EXPECT_EQ(GpuOfRank("cpu", 5, 3), std::nullopt);
  EXPECT_EQ(DeviceOfRank("cuda:*", 5, 3), "cuda:2");
  EXPECT_EQ(DeviceOfRank("cuda", 5, 3), "cuda");
  EXPECT_EQ(DeviceOfRank("cuda:1", 5, 3), "cuda:1");
  EXPECT_EQ(DeviceOfRank("cpu", 5, 3), "cpu");
}

TEST(DeviceName, AGpuThatIsNotThereIsOneLine) {
  EXPECT_EQ(CheckGpuIsThere("cuda:*", 1), absl::OkStatus());
  EXPECT_EQ(CheckGpuIsThere("cuda:7", 8), absl::OkStatus());
  for (const char* device : {"cuda", "cuda:3", "cuda:*"}) {
    const absl::Status none = CheckGpuIsThere(device, 0);
    EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Words(none), HasSubstr("device '" + std::string(device) + "': no GPU that"));
    EXPECT_EQ(Words(none).find('\n'), std::string::npos);
  }
  EXPECT_EQ(Words(CheckGpuIsThere("cuda:8", 8)),
            "device 'cuda:8': this machine has 8 GPUs, cuda:0 to cuda:7");
  EXPECT_EQ(Words(CheckGpuIsThere("cuda:1", 1)), "device 'cuda:1': this machine has 1 GPU, cuda:0");
}

TEST(DeviceName, TheFullestGpuCounts) {
  EXPECT_EQ(RanksOfOneGpu("cuda:*", 8, 4), 2);
  EXPECT_EQ(RanksOfOneGpu("cuda:*", 9, 4), 3);
  EXPECT_EQ(RanksOfOneGpu("cuda:*", 3, 4), 1);
  EXPECT_EQ(RanksOfOneGpu("cuda:1", 8, 4), 8);
  EXPECT_EQ(RanksOfOneGpu("cpu", 8, 4), 0);
}

}  // namespace
}  // namespace longhaul
