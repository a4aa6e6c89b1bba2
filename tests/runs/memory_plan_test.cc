// What a run is predicted to take, against what runs took.
#include "experiments/run/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/known_names.h"
#include "tests/runs/command_line.h"

namespace longhaul {
namespace {

constexpr int64_t kHeadersBytes = int64_t{2} << 26;  // of the built-in corpus, at most

RunSpec SpecWith(const std::vector<std::string>& sets) {
  absl::StatusOr<TomlValue> root = ParseToml(TinySpec(), "tiny.toml");
  EXPECT_TRUE(root.ok()) << root.status();
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(*root, set).ok());
  absl::StatusOr<RunSpec> spec = ReadRunSpec(*root, CatalogNames());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

struct Size {
  const char* name;
  std::vector<std::string> sets;
  int64_t at_least_bytes;  // beyond what torch takes by itself
};

class MemoryPlan : public testing::TestWithParam<Size> {};

// At a size that parameters make, and at one that activations make.
TEST_P(MemoryPlan, PeakResidentMemoryIsWithinTheStatedFactorOfThePrediction) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is in no prediction";
#endif
  const Size& size = GetParam();
  ScratchFolder scratch;
  std::vector<std::string> arguments = {"run", scratch.File("spec.toml", TinySpec()), "--results",
                                        scratch.path() + "/results"};
  for (const std::string& set : size.sets) arguments.insert(arguments.end(), {"--set", set});
  const CommandResult result = RunLonghaul(arguments);
  ASSERT_EQ(result.exit_status, 0) << result.output;
  const ResourcePlan plan = PlanResources(SpecWith(size.sets), kHeadersBytes);
  const double ratio = static_cast<double>(result.peak_bytes) / static_cast<double>(plan.bytes);
  RecordProperty("peak_over_prediction", std::to_string(ratio));
  std::printf("%s: peak %.0f MB, predicted %.0f MB, ratio %.3f\n", size.name,
              static_cast<double>(result.peak_bytes) / 1e6, static_cast<double>(plan.bytes) / 1e6,
              ratio);
  EXPECT_GT(result.peak_bytes, size.at_least_bytes);
  EXPECT_LT(ratio, kMemoryPlanFactor);
  EXPECT_GT(ratio, 1 / kMemoryPlanFactor);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, MemoryPlan,
    testing::Values(Size{"Parameters",
                         {"model.blocks=8", "model.width=384", "model.heads=8", "train.steps=1",
                          "outer.groups=2", "outer.inner_steps=1", "outer.codec=int8-b64"},
                         int64_t{768} << 20},
                    Size{"Activations",
                         {"model.blocks=8", "model.width=64", "model.context=128",
                          "train.batch_rows=256", "train.microbatches=4", "schedule.kind=gpipe",
                          "train.steps=1"},
                         int64_t{768} << 20},
                    Size{"AtenActivations",
                         {"model.engine=aten", "model.blocks=8", "model.width=64",
                          "model.context=128", "train.batch_rows=256", "train.microbatches=4",
                          "schedule.kind=gpipe", "train.steps=1"},
                         int64_t{768} << 20},
                    Size{"LlamaActivations",
                         {"model.kind=llama", "model.blocks=8", "model.width=64",
                          "model.context=128", "train.batch_rows=256", "train.microbatches=4",
                          "schedule.kind=gpipe", "train.steps=1"},
                         int64_t{512} << 20}),
    [](const auto& size) { return std::string(size.param.name); });

TEST(ResourcePlanOf, EachProcessOfAShapedRunHoldsTorchAndTheData) {
  const ResourcePlan one = PlanResources(SpecWith({"model.blocks=8"}), 1'000'000'000);
  const ResourcePlan shaped = PlanResources(
      SpecWith({"model.blocks=8", "net.transport=ucx", "schedule.stages=8", "limits.threads=3"}),
      1'000'000'000);
  EXPECT_EQ(one.processes, 1);
  EXPECT_EQ(one.worker_bytes, one.bytes);
  EXPECT_LT(one.bytes, 1'400'000'000);
  EXPECT_EQ(shaped.processes, 8);
  EXPECT_GT(shaped.bytes, 8'800'000'000);
  EXPECT_LT(shaped.bytes, 10'000'000'000);
  EXPECT_LT(shaped.worker_bytes, 1'300'000'000);
  EXPECT_EQ(shaped.threads, 8 * (3 + 6));
}

TEST(ResourcePlanOf, SchedulesCountTheMicrobatchesThatTheyKeep) {
  const std::vector<std::string> sets = {"model.context=1024", "train.batch_rows=64",
                                         "train.microbatches=64", "train.steps=10"};
  std::vector<std::string> gpipe = sets;
  gpipe.push_back("schedule.kind=gpipe");
  const auto beyond_torch = [](const ResourcePlan& plan) {
    return static_cast<double>(plan.bytes - PlanResources(SpecWith({}), 0).bytes);
  };
  EXPECT_GT(beyond_torch(PlanResources(SpecWith(gpipe), 0)),
            4 * beyond_torch(PlanResources(SpecWith(sets), 0)));
}

TEST(ResourcePlanOf, TheLargestSpecThatBoundsAllowOverflowsNothing) {
  const ResourcePlan plan = PlanResources(
      SpecWith({"model.blocks=1024", "model.width=65536", "model.heads=1024",
                "model.context=1048576", "model.vocab=65536", "train.batch_rows=524288",
                "train.microbatches=1", "train.steps=1", "schedule.stages=1", "schedule.kind=gpipe",
                "outer.groups=1024", "outer.inner_steps=1", "outer.codec=none"}),
      1'000'000'000);
  EXPECT_EQ(plan.bytes, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace longhaul
