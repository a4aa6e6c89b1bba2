// A pipeline that is never flushed: which weights a micro-batch has, against PyTorch, over ranks that run
// apart, over a checkpoint, and what it refuses.
#include "pp_group/past_weights.h"

#include <filesystem>
#include <fstream>
#include <future>

#include <ATen/Parallel.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/train_spec.h"
#include "tests/pp_group/flat_stage.h"
#include "tests/pp_group/patterned_tokens.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

TrainSpec Async(int stages, int groups = 1, const std::string& model = "gpt_cpu") {
  return With(SmallSpec(stages, groups, model), "1f1b-async");
}

// Two micro-batches and four stages: stage 0 has three more under way where its step ends, so of its two
// the first is two steps late and the second one.
TEST(PastWeights, AMicrobatchHasThoseOfItsForward) {
  const PipelineProgram program = ProgramOf(*FindSchedule("1f1b-async"), 4, 2);
  StageLayout layout = EmptyLayout(4, 0, 4, {});
  LayoutBuilder builder(&layout);
  builder.BeginClipGroup();
  builder.Matrix("a", 0, 1, 1, 1);
  FlatStage stage(layout);
  PastWeights past(program, &stage);
  const auto weight = [&stage] { return stage.parameters()[0].item<double>(); };
  std::vector<double> seen;
  for (int step = 0; step < 4; ++step) {
    past.BeginStep();
    for (const int microbatch : {0, 1}) {
      past.Take(microbatch);
      seen.push_back(weight());
    }
    past.EndStep();
    EXPECT_EQ(weight(), step) << "an update moves the newest";
    stage.parameters().fill_(step + 1);
  }
  EXPECT_EQ(seen, (std::vector<double>{0, 0, 0, 0, 0, 1, 1, 2}));
  past.Forget();
  past.BeginStep();
  past.Take(0);
  EXPECT_EQ(weight(), 4) << "nothing is known of before";
}

TEST(Async, OfOneStageIs1F1B) {
  for (const char* model : {"gpt_cpu", "gpt_aten"}) {
    const History flushed = RunAll(SmallSpec(1, 1, model)), history = RunAll(Async(1, 1, model));
    EXPECT_EQ(history.losses, flushed.losses) << model;
    EXPECT_EQ(history.hashes, flushed.hashes) << model;
  }
}

struct Case {
  const char* file;
  const char* optimizer;
  int64_t microbatches;
};
class AsyncGolden : public testing::TestWithParam<Case> {};

TEST_P(AsyncGolden, ThirtyStepsAreThoseOfPyTorch) {
  at::set_num_threads(1);
  const Case& one = GetParam();
  for (const char* engine : {"cpu", "aten"}) {
    TrainSpec spec{.model = {.blocks = 4,
                             .width = 16,
                             .heads = 2,
                             .context = 16,
                             .vocab = 64,
                             .kind = "gpt",
                             .engine = engine},
                   .stages = 4,
                   .groups = 1,
                   .schedule = "1f1b-async",
                   .microbatches = one.microbatches,
                   .batch_rows = 4,
                   .steps = 30,
                   .inner = {.lr = 1e-2, .warmup_steps = 4, .clip_norm = 0.5},
                   .outer = {.inner_steps = 0},
                   .seed = 11};
    spec.inner.optimizer = one.optimizer;
    if (spec.inner.optimizer == "nadam") spec.inner.beta1 = 0.99;
    auto trainer = Trainer::Create(spec, MemoryRanks(spec), PatternedTokens(20000), TestClock);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    std::ifstream golden(GoldenPath(one.file));
    int64_t step = 0, compared = 0;
    double loss = 0, first = 0;
    while (golden >> step >> loss) {
      const auto reports = (*trainer)->Step();
      ASSERT_TRUE(reports.ok()) << reports.status();
      EXPECT_NEAR(*reports->back().loss, loss, 5e-5) << engine << ", step " << step;
      if (compared++ == 0) first = loss;
    }
    EXPECT_EQ(compared, 30);
    EXPECT_LT(loss, first - 0.1) << "nothing was learnt";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, AsyncGolden,
                         testing::Values(Case{"async_adamw_m1.txt", "adamw", 1},
                                         Case{"async_adamw_m2.txt", "adamw", 2},
                                         Case{"async_nadam_m1.txt", "nadam", 1},
                                         Case{"async_nadam_m4.txt", "nadam", 4}),
                         [](auto& info) {
                           const std::string file = info.param.file;
                           return file.substr(0, file.size() - 4);
                         });

class EveryAsyncEngine : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Table, EveryAsyncEngine, testing::ValuesIn(SmallModels()),
                         [](auto& info) { return info.param; });

TEST_P(EveryAsyncEngine, TrainsOnOtherWeightsThan1F1BAndLearns) {
  TrainSpec spec = Async(4, 2, GetParam());
  spec.steps = 40;
  const History history = RunAll(spec);
  EXPECT_LT(history.losses.back(), history.losses.front() - 0.5);
  spec.schedule = "1f1b";
  spec.steps = 2;
  EXPECT_NE(RunAll(spec).losses[2], history.losses[2]) << "a step late from the second on";
}

TEST_P(EveryAsyncEngine, OneThreadPerRankGivesTheBitsOfOneThreadForAll) {
  TrainSpec spec = Async(4, 2, GetParam());
  spec.steps = 6;
  const History together = RunAll(spec);
  const auto corpus = SmallCorpus();
  std::vector<std::future<std::vector<uint64_t>>> runs;
  for (const LocalRank& rank : MemoryRanks(spec)) {
    runs.push_back(std::async(std::launch::async, [&spec, &corpus, rank] {
      at::set_num_threads(1);
      std::vector<uint64_t> hashes;
      auto trainer = Trainer::Create(spec, {rank}, corpus, TestClock);
      EXPECT_TRUE(trainer.ok()) << trainer.status();
      for (int64_t step = 0; trainer.ok() && step < spec.steps; ++step) {
        const auto reports = (*trainer)->Step();
        EXPECT_TRUE(reports.ok()) << reports.status();
        if (!reports.ok()) break;
        hashes.push_back(reports->front().parameter_hash.value());
      }
      return hashes;
    }));
  }
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const std::vector<uint64_t> apart = runs[rank].get();
    ASSERT_EQ(apart.size(), 6u);
    for (size_t step = 0; step < apart.size(); ++step) {
      EXPECT_EQ(apart[step], together.hashes[step][rank]) << "rank " << rank << ", step " << step;
    }
  }
}

TEST(Async, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  for (const char* optimizer : {"adamw", "nadam"}) {
    TrainSpec spec = Async(4);
    spec.microbatches = 1;
    spec.inner.optimizer = optimizer;
    const History whole = RunAll(spec);
    const std::string directory = testing::TempDir() + "/async_" + std::to_string(getpid());
    History history;
    const auto killed = NewTrainer(spec);
    RunSteps(*killed, 5, &history);
    ASSERT_TRUE(killed->SaveCheckpoint(directory).ok());
    const auto resumed = NewTrainer(spec);
    const absl::Status loaded = resumed->LoadCheckpoint(directory);
    ASSERT_TRUE(loaded.ok()) << loaded;
    RunSteps(*resumed, spec.steps - 5, &history);
    EXPECT_EQ(history.losses, whole.losses) << optimizer;
    EXPECT_EQ(history.hashes, whole.hashes) << optimizer;

    TrainSpec flushed = spec;
    flushed.schedule = "1f1b";
    EXPECT_THAT(NewTrainer(flushed)->LoadCheckpoint(directory).message(),
                HasSubstr("ahead=3,2,1,0"));
    // Another number of stages: the pipeline fills anew, and the run says so.
    TrainSpec halves = Async(2);
    halves.microbatches = 1;
    halves.inner.optimizer = optimizer;
    const auto other = NewTrainer(halves);
    const auto restored = other->RestoreFrom(directory);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_THAT(restored->dropped, testing::Contains(HasSubstr("weights of past steps")));
    EXPECT_TRUE(other->Step().ok());
    std::filesystem::remove_all(directory);
  }
}

TEST(Async, RefusesWhatIsNotMadeForWeightsOfSeveralSteps) {
  const auto refused = [](const TrainSpec& spec) {
    return std::string(CheckTrainSpec(spec, *SmallCorpus()).message());
  };
  EXPECT_EQ(refused(Async(4, 2)), "");
  TrainSpec tied = Async(2, 1, "llama_aten");
  tied.model.tied_head = true;
  EXPECT_THAT(refused(tied), HasSubstr("schedule '1f1b-async' is never flushed: a tied head"));
  tied.stages = 1;
  EXPECT_EQ(refused(tied), "");
  TrainSpec overlapping = Async(2, 2);
  overlapping.outer = {.inner_steps = 4, .algorithm = "streaming", .overlap_steps = 1};
  EXPECT_THAT(refused(overlapping), HasSubstr("never flushed: the outer algorithm overlaps"));
  TrainSpec slept = Async(2);
  slept.compute = InjectedCompute{};
  EXPECT_THAT(refused(slept), HasSubstr("never flushed: injected compute"));
  TrainSpec spread = Async(2, 2, "moe_aten");
  spread.outer = {.inner_steps = 0, .algorithm = "dp"};
  spread.model.expert_parallel = 2;
  EXPECT_THAT(refused(spread), HasSubstr("never flushed: experts"));
  const TrainSpec elastic = Async(2, 2);
  EXPECT_THAT(CheckLocalRanks(elastic, *ProgramOf(elastic), MemoryRanks(elastic), /*elastic=*/true)
                  .message(),
              HasSubstr("never flushed: groups that come and go"));
}

}  // namespace
}  // namespace longhaul
