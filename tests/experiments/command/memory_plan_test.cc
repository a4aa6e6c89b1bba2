// What a run is predicted to take, against what runs took.
#include "experiments/run/memory_plan.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

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
  int64_t at_least_bytes = 0;  // beyond what torch takes by itself
};

class MemoryPlan : public testing::TestWithParam<Size> {};

// Of each process of a run: from its record, as it measured it.
std::vector<double> PeaksOf(const std::string& results) {
  const auto record = Record::Open(results, Record::Mode::kRead);
  EXPECT_TRUE(record.ok()) << record.status();
  const auto rows =
      record->Rows("SELECT value FROM run_facts WHERE key LIKE 'peak_bytes_of_rank_%'");
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<double> peaks;
  for (size_t i = 1; i < rows->size(); ++i) peaks.push_back(std::stod((*rows)[i].front()));
  return peaks;
}

// Rows of the table in docs/engines.md.
TEST_P(MemoryPlan, PeakMemoryIsWithinTheStatedFactorOfThePrediction) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is in no prediction";
#endif
  const Size& size = GetParam();
  const bool links =
      std::find(size.sets.begin(), size.sets.end(), "net.transport=ucx") != size.sets.end();
  if (const std::string why = links ? WhyNoLab() : ""; !why.empty()) GTEST_SKIP() << why;
  ScratchFolder scratch;
  const std::string results = scratch.path() + "/results";
  std::vector<std::string> arguments = {"run", scratch.File("spec.toml", TinySpec()), "--results",
                                        results};
  for (const std::string& set : size.sets) arguments.insert(arguments.end(), {"--set", set});
  const ResourcePlan plan = PlanResources(SpecWith(size.sets));
  if (links) {
    const std::string file = LinksWithoutRates(scratch, static_cast<int>(plan.processes));
    arguments.insert(arguments.end(), {"--set", "net.profile=" + file});
  }
  const CommandResult result = RunLonghaul(arguments);
  ASSERT_TRUE(TrainedToTheEnd(result)) << result.output;
  const std::vector<double> peaks = PeaksOf(results);
  ASSERT_EQ(peaks.size(), static_cast<size_t>(plan.processes));
  const double peak = *std::max_element(peaks.begin(), peaks.end());
  const double ratio = peak / static_cast<double>(plan.worker_bytes);
  std::printf("| %s | %.0f | %.0f | %.3f |\n", size.name, peak / 1e6,
              static_cast<double>(plan.worker_bytes) / 1e6, ratio);
  EXPECT_GT(peak, static_cast<double>(size.at_least_bytes));
  EXPECT_LT(ratio, kMemoryPlanFactor);
  EXPECT_GT(ratio, 1 / kMemoryPlanFactor);
  const double all = std::accumulate(peaks.begin(), peaks.end(), 0.0);
  EXPECT_LT(all / static_cast<double>(plan.bytes), kMemoryPlanFactor);
  EXPECT_GT(all / static_cast<double>(plan.bytes), 1 / kMemoryPlanFactor);
}

using Sets = std::vector<std::string>;
Sets operator+(Sets all, const Sets& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Where activations are most of it, and where parameters are.
const Sets kWide = {"model.blocks=8",       "model.width=64",       "model.context=128",
                    "train.batch_rows=256", "train.microbatches=4", "schedule.kind=gpipe",
                    "train.steps=1"};
const Sets kFew = {"model.blocks=8",    "model.width=128",     "model.heads=4",
                   "model.context=128", "train.batch_rows=64", "train.microbatches=8",
                   "schedule.stages=4", "train.steps=1"};
const Sets kParameters = {"model.blocks=8", "model.width=384", "model.heads=8",
                          "train.steps=1",  "outer.groups=2",  "outer.inner_steps=1"};

const Sets kLinks = {"net.transport=ucx", "net.out_of_bounds=flag"};

INSTANTIATE_TEST_SUITE_P(
    Sizes, MemoryPlan,
    testing::Values(
        Size{"GptCpuSmall", {}, 0}, Size{"GptCpu4Stages", kFew},
        Size{"GptCpuActivations", kWide, int64_t{768} << 20},
        Size{"GptCpuInt8Outer", kParameters + Sets{"outer.codec=int8-b64"}, int64_t{768} << 20},
        Size{"GptCpuInt4EfOuter", kParameters + Sets{"outer.codec=int4-b64+ef"}},
        Size{"GptCpuDataParallel",
             kParameters + Sets{"outer.inner_steps=0", "outer.algorithm=dp", "outer.codec=none"}},
        Size{"GptCpuCheckpoints", kParameters + Sets{"outer.codec=int8-b64", "train.steps=3",
                                                     "checkpoint.every_steps=1"}},
        Size{"GptAten4Stages", kFew + Sets{"model.engine=aten"}},
        Size{"GptAtenActivations", kWide + Sets{"model.engine=aten"}, int64_t{768} << 20},
        Size{"GptAtenBf16", kWide + Sets{"model.engine=aten", "train.dtype=bfloat16"}},
        Size{"GptAtenVocabulary", kFew + Sets{"model.engine=aten", "model.vocab=32768"}},
        Size{"GptAtenLossless",
             kFew + Sets{"model.engine=aten", "boundary.forward=none", "boundary.backward=none"}},
        Size{"LlamaActivations", kWide + Sets{"model.kind=llama"}, int64_t{768} << 20},
        Size{"Llama4Stages", kFew + Sets{"model.kind=llama", "model.kv_heads=2"}},
        Size{"LlamaTied", kFew + Sets{"model.kind=llama", "model.vocab=32768",
                                      "model.tied_head=true", "schedule.stages=1"}},
        Size{"LlamaTied4Stages",
             kFew + Sets{"model.kind=llama", "model.vocab=32768", "model.tied_head=true"}},
        Size{"LlamaBf16", kWide + Sets{"model.kind=llama", "train.dtype=bfloat16"}},
        Size{"LlamaRecompute", kWide + Sets{"model.kind=llama", "train.recompute=true"}},
        Size{"LlamaZbH1", kFew + Sets{"model.kind=llama", "schedule.kind=zb-h1"}},
        Size{"MoeActivations", kWide + Sets{"model.kind=moe"}, int64_t{768} << 20},
        Size{"Moe4Stages", kFew + Sets{"model.kind=moe", "model.experts=4"}},
        Size{"MoeSpread", kParameters + Sets{"model.kind=moe", "model.experts=8",
                                             "outer.inner_steps=0", "outer.algorithm=dp",
                                             "outer.codec=none", "model.expert_parallel=2"}}),
    [](const auto& size) { return std::string(size.param.name); });

// Of workers behind links, each a process of its own.
INSTANTIATE_TEST_SUITE_P(
    Workers, MemoryPlan,
    testing::Values(Size{"GptCpuWorkers", kParameters + kLinks + Sets{"outer.codec=int8-b64"}},
                    Size{"LlamaWorkers", kFew + kLinks + Sets{"model.kind=llama"}},
                    Size{"LlamaTiedWorkers", kFew + kLinks +
                                                 Sets{"model.kind=llama", "model.vocab=16384",
                                                      "model.tied_head=true", "schedule.stages=2"}},
                    Size{"MoeSpreadWorkers",
                         kParameters + kLinks +
                             Sets{"model.kind=moe", "model.experts=8", "model.width=128",
                                  "outer.inner_steps=0", "outer.algorithm=dp", "outer.codec=none",
                                  "model.expert_parallel=2"}}),
    [](const auto& size) { return std::string(size.param.name); });

// By hand: a GPT of 2 blocks, D = 64, V = 256, T = 32 in one stage has 133,760 parameters (2 blocks
// of 12 D^2 + 4 D, embeddings of 256 D and 32 D, a norm of 2 D, a head of 256 D), and lies in that
// many floats, all multiples of 64. B = 4 rows are 128 tokens in M = 2 micro-batches.
TEST(ResourcePlanOf, AStageIsWhatAPencilSays) {
  const ResourcePlan plan = PlanResources(
      SpecWith({"model.blocks=2", "model.width=64", "schedule.stages=1", "train.steps=1"}));
  const int64_t parameters = 2 * (12 * 64 * 64 + 4 * 64) + 256 * 64 + 32 * 64 + 2 * 64 + 256 * 64;
  ASSERT_EQ(parameters, 133'760);
  // Of a token: two blocks of 15 D + heads + 4, the stream between them, the ends of both sides.
  const int64_t kept = 4 * (2 * (15 * 64 + 2 + 4) + 64 + 64 + 3 * 64 + 2);
  const int64_t scratch = 4 * (11 * 64 + 256);
  // 64 tokens live (1F1B, one stage), 64 of an evaluation, scratch of one; rows four times.
  EXPECT_EQ(plan.bytes,
            ProcessBytes("cpu") + 4 * 4 * parameters + 128 * kept + 64 * scratch + 4 * 128 * 8);
}

TEST(ResourcePlanOf, EachProcessOfAShapedRunHoldsTorch) {
  const ResourcePlan one = PlanResources(SpecWith({"model.blocks=8"}));
  const ResourcePlan shaped = PlanResources(
      SpecWith({"model.blocks=8", "net.transport=ucx", "schedule.stages=8", "limits.threads=3"}));
  EXPECT_EQ(one.processes, 1);
  EXPECT_EQ(one.worker_bytes, one.bytes);
  EXPECT_EQ(shaped.processes, 8);
  EXPECT_GT(shaped.bytes, 480'000'000);
  EXPECT_LT(shaped.bytes, 500'000'000);
  EXPECT_EQ(shaped.threads, 8 * (3 + 6));
}

TEST(ResourcePlanOf, SchedulesCountTheMicrobatchesThatTheyKeep) {
  const std::vector<std::string> sets = {"model.context=1024", "train.batch_rows=64",
                                         "train.microbatches=64", "train.steps=10"};
  std::vector<std::string> gpipe = sets;
  gpipe.push_back("schedule.kind=gpipe");
  const auto beyond_torch = [](const ResourcePlan& plan) {
    return static_cast<double>(plan.bytes - PlanResources(SpecWith({})).bytes);
  };
  EXPECT_GT(beyond_torch(PlanResources(SpecWith(gpipe))),
            4 * beyond_torch(PlanResources(SpecWith(sets))));
}

TEST(ResourcePlanOf, TheLargestSpecThatBoundsAllowOverflowsNothing) {
  const ResourcePlan plan = PlanResources(
      SpecWith({"model.blocks=1024", "model.width=65536", "model.heads=1024",
                "model.context=1048576", "model.vocab=65536", "train.batch_rows=524288",
                "train.microbatches=1", "train.steps=1", "schedule.stages=1", "schedule.kind=gpipe",
                "outer.groups=1024", "outer.inner_steps=1", "outer.codec=none"}));
  EXPECT_EQ(plan.bytes, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace longhaul
