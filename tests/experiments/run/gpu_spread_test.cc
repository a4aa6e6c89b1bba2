// Runs of a campaign on several GPUs, and the service with which runs share one. A script stands in for NVIDIA's program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "experiments/run/gpu_sharing.h"
#include "experiments/run/gpu_spread.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GpuSpread, ReadsNumbersAndRanges) {
  EXPECT_THAT(*ParseGpus("0-3,6"), ElementsAre(0, 1, 2, 3, 6));
  EXPECT_THAT(*ParseGpus("5"), ElementsAre(5));
  for (const char* bad : {"", "-1", "0-", "3-1", "a", "0,,1", "0-1-2", "1024", "0-2000000000"}) {
    EXPECT_THAT(ParseGpus(bad).status().message(), HasSubstr("want numbers and ranges")) << bad;
  }
  EXPECT_EQ(ParseGpus("0-2,1").status().message(), "--gpus '0-2,1': GPU 1 is there twice");
}

TEST(GpuSpread, GivesTheGpuWithFewestRuns) {
  GpuSpread spread({4, 7});
  EXPECT_EQ(spread.Take(), 4);
  EXPECT_EQ(spread.Take(), 7);
  EXPECT_EQ(spread.Take(), 4);
  spread.GiveBack(7);
  EXPECT_EQ(spread.Take(), 7);
  spread.GiveBack(4);
  spread.GiveBack(4);
  EXPECT_EQ(spread.Take(), 4);
  EXPECT_EQ(GpuSpread({}).Take(), std::nullopt);
}

TEST(GpuSpread, RefusesRunsThatAreNotOfOneProcessOnAGpu) {
  PlannedRun run{};
  run.arm = "s8";
  run.spec.net.transport = "loopback";
  run.spec.train.device = "cuda";
  EXPECT_TRUE(CheckCanSpread({run}).ok());
  for (const auto& [device, transport] :
       {std::pair{"cpu", "loopback"}, {"cuda:1", "loopback"}, {"cuda", "ucx"}}) {
    PlannedRun other = run;
    other.spec.train.device = device;
    other.spec.net.transport = transport;
    EXPECT_THAT(CheckCanSpread({run, other}).message(),
                HasSubstr("arm 's8' has train.device = \"" + std::string(device) + "\""));
  }
}

class GpuSharingTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("CUDA_MPS_PIPE_DIRECTORY"); }
  void TearDown() override { unsetenv("CUDA_MPS_PIPE_DIRECTORY"); }

  // A program of shell lines.
  std::string Program(const std::string& lines) {
    const std::string path = folder_ + "/control";
    std::ofstream(path) << "#!/bin/sh\n" << lines;
    chmod(path.c_str(), 0755);
    return path;
  }
  const std::string folder_ = testing::TempDir() + "/gpu_sharing";
  const bool made_ = std::filesystem::create_directories(folder_);
};

// Takes the place of the service: it lives until "quit" comes, and says who it is.
constexpr char kService[] = R"sh(
pipe=$CUDA_MPS_PIPE_DIRECTORY
if [ "$1" = -f ]; then
  echo $$ >$pipe/pid
  : >$pipe/control
  while [ ! -e $pipe/quit ]; do sleep 0.02; done
  exit 0
fi
read word && [ "$word" = quit ] && : >$pipe/quit
)sh";

TEST_F(GpuSharingTest, StartsTheServiceAndEndsIt) {
  pid_t service = 0;
  std::string pipe;
  {
    const GpuSharing sharing = GpuSharing::Start(Program(kService));
    ASSERT_TRUE(sharing.on()) << sharing.words();
    EXPECT_EQ(sharing.words(), "MPS");
    pipe = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
    std::ifstream(pipe + "/pid") >> service;
    ASSERT_GT(service, 0);
    EXPECT_EQ(kill(service, 0), 0);
  }
  EXPECT_NE(kill(service, 0), 0);
  EXPECT_FALSE(std::filesystem::exists(pipe));
  EXPECT_EQ(std::getenv("CUDA_MPS_PIPE_DIRECTORY"), nullptr);
}

TEST_F(GpuSharingTest, SaysWhyRunsTakeTurns) {
  const GpuSharing none = GpuSharing::Start(folder_ + "/missing");
  EXPECT_FALSE(none.on());
  EXPECT_EQ(none.words(), "turns: start " + folder_ + "/missing: No such file or directory");
  const GpuSharing ended =
      GpuSharing::Start(Program("echo 'no CUDA-capable device is detected'\nexit 1\n"));
  EXPECT_THAT(ended.words(), testing::EndsWith("ended: no CUDA-capable device is detected"));
  EXPECT_EQ(std::getenv("CUDA_MPS_PIPE_DIRECTORY"), nullptr);
}

TEST_F(GpuSharingTest, TakesAServiceThatIsThere) {
  std::ofstream(folder_ + "/control") << "";
  setenv("CUDA_MPS_PIPE_DIRECTORY", folder_.c_str(), 1);
  {
    const GpuSharing sharing = GpuSharing::Start(folder_ + "/missing");
    EXPECT_TRUE(sharing.on());
    EXPECT_EQ(sharing.words(), "MPS, which was there");
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/control"));
}

}  // namespace
}  // namespace longhaul
