// What a run would take of each GPU of a machine, and what it is told of there.
#include "experiments/run/machine_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "experiments/run/run_recorder.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "experiments/train/gpu_of_worker.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kGb = 1'000'000'000;

ResourcePlan Plan(const std::string& device, std::vector<int64_t> bytes) {
  return {.processes = static_cast<int>(bytes.size()),
          .bytes = 0,
          .worker_bytes = 0,
          .threads = 0,
          .device = device,
          .device_bytes = std::move(bytes)};
}

std::vector<int64_t> Bytes(const std::vector<GpuLoad>& loads) {
  std::vector<int64_t> bytes;
  for (const GpuLoad& load : loads) bytes.push_back(load.bytes);
  return bytes;
}

TEST(GpuMemory, EachGpuHoldsItsRanksAndTheirContexts) {
  const ResourcePlan plan = Plan("cuda:*", {1 * kGb, 2 * kGb, 3 * kGb, 4 * kGb, 5 * kGb});
  const std::vector<GpuLoad> two = LoadOfGpus({plan}, 2);
  EXPECT_THAT(Bytes(two),
              ElementsAre(9 * kGb + 3 * kGpuContextBytes, 6 * kGb + 2 * kGpuContextBytes));
  EXPECT_EQ(two[0].workers, 3);
  EXPECT_EQ(two[1].workers, 2);
  const ResourcePlan one = Plan("cuda:1", {1 * kGb, 2 * kGb});
  EXPECT_THAT(Bytes(LoadOfGpus({one}, 3)), ElementsAre(0, 3 * kGb + 2 * kGpuContextBytes, 0));
  EXPECT_THAT(Bytes(LoadOfGpus({one, one, plan}, 2)),
              ElementsAre(9 * kGb + 3 * kGpuContextBytes, 12 * kGb + 6 * kGpuContextBytes));
  EXPECT_THAT(Bytes(LoadOfGpus({Plan("cpu", {})}, 1)), ElementsAre(0));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Bytes(LoadOfGpus({Plan("cuda", {most, most})}, 1)), ElementsAre(most));
}

TEST(GpuMemory, TheFullGpuIsNamedWithBothFigures) {
  const ResourcePlan plan = Plan("cuda:*", {1 * kGb, 2 * kGb, 1 * kGb, 4 * kGb});
  const int64_t second = 6 * kGb + 2 * kGpuContextBytes;
  EXPECT_EQ(CheckGpuMemory({plan}, {{80 * kGb, 80 * kGb}, {second, 80 * kGb}}), absl::OkStatus());
  const absl::Status status =
      CheckGpuMemory({plan}, {{80 * kGb, 80 * kGb}, {second - 1, 80 * kGb}});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("on cuda:1: 2 workers would take 7.5 GB of it, and 7.5 of 80 GB"),
                    HasSubstr("cuda:*")));
  const absl::Status alone = CheckGpuMemory({Plan("cuda", {90 * kGb})}, {{70 * kGb, 80 * kGb}});
  EXPECT_THAT(std::string(alone.message()),
              AllOf(HasSubstr("cuda:0: 1 worker would take 90.8 GB"), Not(HasSubstr("cuda:*"))));
}

absl::StatusOr<RunSpec> Read(const std::vector<std::string>& sets) {
  const ScratchFolder scratch;
  return LoadRunSpec(scratch.File("spec.toml", TinySpec()), sets, CatalogNames());
}

RunSpec Spec(const std::vector<std::string>& sets) {
  auto spec = Read(sets);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

TEST(GpuMemory, EachWorkerHasAShareAndOneProcessAllOfThem) {
  const std::vector<std::string> ucx = {"train.device=cuda:*",  "net.transport=ucx",
                                        "net.profile=regional", "outer.groups=2",
                                        "outer.inner_steps=1",  "outer.codec=none"};
  const ResourcePlan spread = PlanResources(Spec(ucx));
  ASSERT_EQ(spread.device_bytes.size(), 4);  // of 2 stages in 2 groups
  EXPECT_EQ(spread.device_bytes[0], spread.device_bytes[2]);
  EXPECT_EQ(spread.device_bytes[1], spread.device_bytes[3]);
  EXPECT_EQ(spread.device, "cuda:*");
  EXPECT_EQ(GpuBytesOfRank(Spec(ucx), 1), spread.device_bytes[1]);
  EXPECT_EQ(GpuBytesOfRank(Spec(ucx), 4), 0);
  EXPECT_EQ(GpuBytesOfRank(Spec({}), 0), 0);
  const ResourcePlan one =
      PlanResources(Spec({"train.device=cuda:1", "model.engine=aten", "net.transport=loopback"}));
  EXPECT_EQ(one.device_bytes.size(), 1);
}

TEST(GpuMemory, InOneProcessRanksHaveNoGpusOfTheirOwn) {
  const auto refused = Read({"train.device=cuda:*", "net.transport=loopback"});
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("'train.device' = \"cuda:*\" gives each worker's process a GPU"),
                    HasSubstr("want cuda, cuda:N or net.transport = \"ucx\"")));
}

TEST(GpuMemory, WorkersSeeTheGpusThatTheirCommandSees) {
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 1);
  unsetenv("CUDA_DEVICE_ORDER");
  unsetenv("LD_LIBRARY_PATH");
  unsetenv("PYTORCH_ALLOC_CONF");
  EXPECT_THAT(
      GpuVariables("cuda:*"),
      ElementsAre("CUDA_VISIBLE_DEVICES=2,0", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  EXPECT_THAT(GpuVariables("cpu"), ElementsAre());
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

TEST(GpuMemory, ARowBeginsWithTheSpecsDeviceAndDtype) {
  const RunRow row = NewRunRow(Spec({"train.device=cuda:1", "train.dtype=bfloat16"}), 1, "arm");
  EXPECT_EQ(row.facts.at("device"), "cuda:1");
  EXPECT_EQ(row.facts.at("dtype"), "bfloat16");
}

TEST(GpuOfWorker, SharingIsAFactAndWhereItIsUnknownThatIs) {
  EXPECT_EQ(SharedBy("cuda:*", RanksHere{0, 4}, 4), "1 rank");
  EXPECT_EQ(SharedBy("cuda:*", RanksHere{0, 5}, 4),
            "2 ranks: they take turns, and their times are no evidence");
  EXPECT_THAT(SharedBy("cuda", RanksHere{0, 4}, 4), HasSubstr("4 ranks"));
  EXPECT_THAT(SharedBy("cuda:*", std::nullopt, 4), HasSubstr("unknown: LOCAL_RANK"));
}

TEST(GpuOfWorker, TorchrunSaysWhichRanksAreHere) {
  const auto here = [](const char* local_rank, const char* count) {
    setenv("LOCAL_RANK", local_rank, 1);
    setenv("LOCAL_WORLD_SIZE", count, 1);
    const auto ranks = RanksHereFromEnvironment();
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    return ranks ? std::pair(ranks->own, ranks->count) : std::pair(-1, -1);
  };
  EXPECT_EQ(here("1", "4"), std::pair(1, 4));
  for (const auto& [local_rank, count] :
       {std::pair("4", "4"), {"-1", "4"}, {"x", "4"}, {"1", ""}}) {
    EXPECT_EQ(here(local_rank, count), std::pair(-1, -1)) << local_rank << " of " << count;
  }
  EXPECT_FALSE(RanksHereFromEnvironment());
}

// Two machines of two GPUs, to which a launcher deals ranks 0 to 3 in turn: by rank, ranks 0 and 2 of
// the first machine would share its first GPU.
TEST(GpuOfWorker, ByTheNumberOnItsMachineWhereTheLauncherSaysIt) {
  EXPECT_EQ(GpuNumber(RanksHere{0, 2}, 0), 0);
  EXPECT_EQ(GpuNumber(RanksHere{1, 2}, 2), 1);
  EXPECT_EQ(GpuNumber(RanksHere{0, 2}, 3), 0);
  // One process a node, as nodes of a lab on one machine have it; or nothing said.
  EXPECT_EQ(GpuNumber(RanksHere{0, 1}, 3), 3);
  EXPECT_EQ(GpuNumber(std::nullopt, 3), 3);
}

TEST(GpuOfWorker, WithoutAGpuTheNameStaysAndTheRunIsRefused) {
  const RunSpec spec = Spec({"train.device=cuda:*", "net.transport=ucx", "net.profile=regional"});
  if (GpuCount() > 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(OnGpu(spec, 1).train.device, "cuda:*");
  EXPECT_EQ(GpuOf(Spec({})), std::nullopt);
}

}  // namespace
}  // namespace longhaul
