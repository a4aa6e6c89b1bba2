#include "pp_group/trainer.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <map>
#include <tuple>

#include <ATen/Parallel.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/engines/cpu/gpt_stage.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/train_spec.h"
#include "tests/pp_group/autograd_gpt.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(Trainer, Bfloat16BoundariesTrainAndSplitWithoutAnotherBit) {
  for (const char* model : {"gpt_aten", "llama_aten"}) {
    TrainSpec spec = SmallSpec(1, 2, model);
    spec.stage_compute = {.dtype = "bfloat16", .recompute = true};
    const History whole = RunAll(spec);
    spec.stages = 4;
    EXPECT_EQ(RunAll(spec).losses, whole.losses) << model;
    EXPECT_LT(whole.losses.back(), whole.losses.front() - 0.3) << model;
  }
}

TEST(Trainer, LossFallsOnStructuredText) {
  TrainSpec spec = SmallSpec(/*stages=*/2, /*groups=*/1);
  spec.steps = 60;
  const History history = RunAll(spec);
  ASSERT_EQ(history.losses.size(), 60u);
  EXPECT_NEAR(history.losses.front(), std::log(256.0), 0.1);
  EXPECT_LT(history.losses.back(), 2.6);
}

class EveryDepth : public testing::TestWithParam<int> {};

TEST_P(EveryDepth, GivesTheLossesOfTheUnsplitModelBitForBit) {
  const History whole = RunAll(SmallSpec(1, 1));
  const History split = RunAll(SmallSpec(GetParam(), 1));
  ASSERT_EQ(whole.losses.size(), 12u);
  EXPECT_EQ(split.losses, whole.losses);
}

TEST(Trainer, UnequalStagesGiveTheLossesOfTheUnsplitModelBitForBit) {
  const History whole = RunAll(SmallSpec(1, 1));
  for (const std::vector<int64_t>& cuts :
       {std::vector<int64_t>{1}, {7}, {1, 2}, {2, 5, 7}, {1, 2, 3, 4, 5, 6, 7}}) {
    TrainSpec spec = SmallSpec(static_cast<int>(cuts.size()) + 1, 1);
    spec.cuts = cuts;
    EXPECT_EQ(RunAll(spec).losses, whole.losses) << cuts.size() << " cuts, first " << cuts[0];
  }
}

TEST_P(EveryDepth, TwoGroupsAgreeAfterEachOuterStepAndOnlyThen) {
  const TrainSpec spec = SmallSpec(GetParam(), 2);
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  for (int64_t step = 1; step <= spec.steps; ++step) {
    const auto reports = trainer->Step();
    ASSERT_TRUE(reports.ok()) << reports.status();
    ASSERT_EQ(reports->size(), static_cast<size_t>(2 * spec.stages));
    const bool due = step % 5 == 0 || step == spec.steps;
    for (int s = 0; s < spec.stages; ++s) {
      const StepReport &a = (*reports)[s], &b = (*reports)[spec.stages + s];
      EXPECT_EQ(a.outer_synced, due);
      EXPECT_EQ(a.parameter_hash == b.parameter_hash, due) << "step " << step << " stage " << s;
      EXPECT_EQ(a.outer_bytes_sent > 0, due);
    }
  }
}

TEST(Trainer, ParametersAreHashedWhereTheSpecSays) {
  const auto hashed = [](TrainSpec spec, int64_t every, int64_t checkpoints) {
    spec.hash_every = every;
    spec.checkpoint_every = checkpoints;
    const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
    std::vector<int64_t> steps;
    for (int64_t step = 1; step <= spec.steps; ++step) {
      const auto reports = trainer->Step();
      EXPECT_TRUE(reports.ok()) << reports.status();
      for (const StepReport& r : *reports) {
        EXPECT_EQ(r.parameter_hash.has_value(), reports->front().parameter_hash.has_value());
      }
      if (reports->front().parameter_hash) steps.push_back(step);
    }
    return steps;
  };
  using Steps = std::vector<int64_t>;
  const TrainSpec alone = SmallSpec(2, 1), groups = SmallSpec(1, 2);  // H = 5, 12 steps
  EXPECT_EQ(hashed(alone, 0, 0), Steps({12}));
  EXPECT_EQ(hashed(alone, 0, 4), Steps({4, 8, 12}));
  EXPECT_EQ(hashed(groups, 0, 0), Steps({5, 10, 12}));
  EXPECT_EQ(hashed(groups, 7, 4), Steps({7, 12}));
  TrainSpec gradients = groups;
  gradients.outer = {.inner_steps = 0, .algorithm = "dp"};
  EXPECT_EQ(hashed(gradients, 0, 0), Steps({12})) << "averaged gradients are no outer step";
}

// Every rank decodes every frame, its own too: what a lossy codec does to a delta, it does to all.
TEST_P(EveryDepth, TwoGroupsAgreeAfterEachOuterStepWhateverTheOuterCodecLoses) {
  for (const char* codec : {"int4-b64-h64+ef", "q4_0", "int4-b64+sr", "topk-64of4096+none+ef"}) {
    TrainSpec spec = SmallSpec(GetParam(), 2);
    spec.outer.codec = codec;
    const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
    int syncs = 0;
    for (int64_t step = 1; step <= spec.steps; ++step) {
      const auto reports = trainer->Step();
      ASSERT_TRUE(reports.ok()) << reports.status();
      if (!reports->front().outer_synced) continue;
      ++syncs;
      for (int s = 0; s < spec.stages; ++s) {
        EXPECT_EQ((*reports)[s].parameter_hash, (*reports)[spec.stages + s].parameter_hash)
            << codec << ", step " << step << ", stage " << s;
      }
    }
    EXPECT_EQ(syncs, 3) << "after steps 5, 10 and the last, 12";
  }
}

TEST_P(EveryDepth, DataParallelGroupsHoldEqualBitsAfterEveryStep) {
  for (const char* codec : {"none", "int8-b64", "int4-b64-h64+ef"}) {
    TrainSpec spec = SmallSpec(GetParam(), 2);
    spec.outer = {.inner_steps = 0, .codec = codec, .algorithm = "dp"};
    const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
    for (int64_t step = 1; step <= spec.steps; ++step) {
      const auto reports = trainer->Step();
      ASSERT_TRUE(reports.ok()) << reports.status();
      for (int s = 0; s < spec.stages; ++s) {
        const StepReport &a = (*reports)[s], &b = (*reports)[spec.stages + s];
        EXPECT_EQ(a.parameter_hash, b.parameter_hash) << codec << ", step " << step;
        EXPECT_TRUE(a.outer_synced);
        EXPECT_GT(a.outer_bytes_sent, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, EveryDepth, testing::Values(1, 2, 4, 8));

class EverySchedule : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EverySchedule, GivesEqualBits) {
  TrainSpec spec = SmallSpec(4, 2, std::get<0>(GetParam()));
  spec.steps = 3;
  spec.outer.inner_steps = 2;
  spec.inner.warmup_steps = 1;
  const History reference = RunAll(spec);
  const History history = RunAll(With(spec, std::get<1>(GetParam())));
  EXPECT_EQ(history.losses, reference.losses);
  EXPECT_EQ(history.hashes, reference.hashes);
}

INSTANTIATE_TEST_SUITE_P(Table, EverySchedule,
                         testing::Combine(testing::ValuesIn(SmallModels()),
                                          testing::ValuesIn(FlushedScheduleNames())),
                         [](auto& info) {
                           std::string name =
                               std::get<0>(info.param) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class EveryEngine : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Table, EveryEngine, testing::ValuesIn(SmallModels()),
                         [](auto& info) { return info.param; });

TEST_P(EveryEngine, GivesTheLossesOfTheUnsplitModelBitForBit) {
  TrainSpec spec = SmallSpec(1, 1, GetParam());
  spec.steps = 6;
  const History whole = RunAll(spec);
  ASSERT_EQ(whole.losses.size(), 6u);
  for (const int stages : {2, 8}) {
    spec.stages = stages;
    EXPECT_EQ(RunAll(spec).losses, whole.losses) << stages;
  }
}

// Each thread has the two stages of its rank, and so blocks where a process over links does.
TEST(Trainer, OneThreadPerRankOfSeveralStagesGivesTheBitsOfOneThreadForAll) {
  for (const char* schedule : {"interleaved-1f1b", "zb-v"}) {
    TrainSpec spec = With(SmallSpec(8, 2), schedule);
    spec.steps = 6;
    const History together = RunAll(spec);
    EXPECT_EQ(together.losses, RunAll(With(spec, "1f1b")).losses) << schedule;
    const auto corpus = SmallCorpus();
    const PipelineProgram program = *ProgramOf(spec);
    std::map<std::pair<int, int>, std::vector<LocalRank>> ranks;
    for (const LocalRank& stage : MemoryRanks(spec)) {
      ranks[{stage.group, program.rank_of_stage[stage.stage]}].push_back(stage);
    }
    std::vector<std::future<std::map<std::pair<int, int>, uint64_t>>> runs;
    for (const auto& [place, stages] : ranks) {
      runs.push_back(std::async(std::launch::async, [&spec, &corpus, stages] {
        at::set_num_threads(1);
        std::map<std::pair<int, int>, uint64_t> hashes;
        auto trainer = Trainer::Create(spec, stages, corpus, TestClock);
        EXPECT_TRUE(trainer.ok()) << trainer.status();
        for (int64_t step = 0; trainer.ok() && step < spec.steps; ++step) {
          const auto reports = (*trainer)->Step();
          EXPECT_TRUE(reports.ok()) << reports.status();
          if (!reports.ok()) break;
          EXPECT_EQ(reports->size(), 2u);
          for (const StepReport& r : *reports)
            hashes[{r.group, r.stage}] = r.parameter_hash.value();
        }
        EXPECT_TRUE((*trainer)->Evaluate(BoundaryCodec::kOn, 4).ok());
        return hashes;
      }));
    }
    std::map<std::pair<int, int>, uint64_t> apart;
    for (auto& run : runs) apart.merge(run.get());
    std::vector<uint64_t> in_order;
    for (const auto& [place, hash] : apart) in_order.push_back(hash);
    EXPECT_EQ(in_order, together.hashes.back()) << schedule;
  }
}

TEST_P(EveryEngine, OneThreadPerRankGivesTheBitsOfOneThreadForAll) {
  TrainSpec spec = SmallSpec(4, 2, GetParam());
  spec.steps = 6;
  const History together = RunAll(spec);
  const auto corpus = SmallCorpus();
  std::vector<std::future<History>> runs;
  for (const LocalRank& rank : MemoryRanks(spec)) {
    runs.push_back(std::async(std::launch::async, [&spec, &corpus, rank] {
      at::set_num_threads(1);
      History history;
      auto trainer = Trainer::Create(spec, {rank}, corpus, TestClock);
      EXPECT_TRUE(trainer.ok()) << trainer.status();
      if (trainer.ok()) RunSteps(**trainer, spec.steps, &history);
      return history;
    }));
  }
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    const History apart = runs[rank].get();
    ASSERT_EQ(apart.hashes.size(), together.hashes.size());
    for (size_t step = 0; step < apart.hashes.size(); ++step) {
      EXPECT_EQ(apart.hashes[step][0], together.hashes[step][rank]) << "step " << step + 1;
    }
    for (size_t i = 0; i < apart.losses.size(); ++i) {
      const size_t group = rank / spec.stages;
      EXPECT_EQ(apart.losses[i], together.losses[2 * i + group]);
    }
  }
}

TEST(Trainer, AnotherSeedIsAnotherRun) {
  TrainSpec spec = SmallSpec(1, 1);
  const History one = RunAll(spec);
  spec.seed = 8;
  EXPECT_NE(RunAll(spec).losses, one.losses);
}

TEST_P(EveryEngine, EvaluationIsTheSameForEveryDepthAndChangesNothing) {
  std::vector<double> losses;
  for (int stages : {1, 4}) {
    const TrainSpec spec = SmallSpec(stages, 1, GetParam());
    const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
    History history;
    RunSteps(*trainer, 6, &history);
    for (BoundaryCodec codec : {BoundaryCodec::kOff, BoundaryCodec::kOn}) {
      const auto evaluation = trainer->Evaluate(codec, /*rows=*/11);
      ASSERT_TRUE(evaluation.ok()) << evaluation.status();
      ASSERT_TRUE(evaluation->has_value());
      EXPECT_EQ((*evaluation)->tokens, 11 * 32);
      EXPECT_GT((*evaluation)->block_se, 0);
      losses.push_back((*evaluation)->loss);
    }
    RunSteps(*trainer, 6, &history);
    EXPECT_EQ(history.losses, RunAll(spec).losses);
  }
  EXPECT_THAT(losses, testing::Each(losses.front()));
  EXPECT_LT(losses.front(), std::log(256.0));
}

TEST(Trainer, StepsSayHowManyClipGroupsWereScaledDown) {
  for (const auto& [clip_norm, all] : {std::pair(1e-9, true), std::pair(1e9, false)}) {
    TrainSpec spec = SmallSpec(/*stages=*/2, /*groups=*/1);
    spec.inner.clip_norm = clip_norm;
    const auto reports = NewTrainer(spec)->Step();
    ASSERT_TRUE(reports.ok()) << reports.status();
    for (const StepReport& report : *reports) {
      const size_t groups = LayoutOf(spec.model, report.stage, 2).clip_groups.size();
      EXPECT_EQ(report.clipped_groups, all ? static_cast<int>(groups) : 0) << report.stage;
    }
  }
}

// Row by row through the autograd model: the whole held-out sample counts, once each, and the
// standard error is that of a mean of rows.
TEST(Trainer, EvaluationIsTheMeanOverRowsOfAReferenceModel) {
  constexpr int64_t kRows = 7;  // three batches of two rows and one of one
  const TrainSpec spec = SmallSpec(/*stages=*/2, /*groups=*/1);
  const int64_t context = spec.model.context;
  const CpuGptStage whole(spec.model, /*stage=*/0, /*stages=*/1, spec.seed);
  const at::Tensor parameters = whole.parameters().to(at::kDouble);
  std::vector<double> losses;
  std::vector<int64_t> row(context + 1);
  for (int64_t i = 0; i < kRows; ++i) {
    SmallCorpus()->HeldOutRow(i, context, row);
    const std::span<const int64_t> ids(row);
    losses.push_back(
        AutogradLoss(spec.model, parameters, ids.first(context), ids.last(context)).item<double>());
  }
  double mean = 0, variance = 0;
  for (const double loss : losses) mean += loss / kRows;
  for (const double loss : losses) variance += (loss - mean) * (loss - mean) / (kRows - 1);
  const auto evaluation = NewTrainer(spec)->Evaluate(BoundaryCodec::kOff, kRows);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ((*evaluation)->tokens, kRows * context);
  EXPECT_NEAR((*evaluation)->loss, mean, 2e-6);
  const double se = std::sqrt(variance / kRows);
  ASSERT_GT(se, 1e-4) << "rows that are all alike would hide a wrong order";
  EXPECT_NEAR((*evaluation)->block_se, se, 0.01 * se);
}

TEST(Trainer, EvaluationBeyondTheHeldOutPartIsAnError) {
  const std::unique_ptr<Trainer> trainer = NewTrainer(SmallSpec(1, 1));
  const int64_t rows = SmallCorpus()->held_out_rows(32);
  EXPECT_TRUE(trainer->Evaluate(BoundaryCodec::kOff, rows).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(trainer->Evaluate(BoundaryCodec::kOff, rows + 1).status()));
}

TEST(Trainer, ALossOfNoNumberIsOutOfRangeInItsStep) {
  TrainSpec spec = SmallSpec(2, 2);
  spec.inner.lr = 1e30;
  spec.inner.warmup_steps = 0;
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  const auto first = trainer->Step();
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status evaluated = trainer->Evaluate(BoundaryCodec::kOff, 4).status();
  EXPECT_TRUE(absl::IsOutOfRange(evaluated)) << evaluated;
  EXPECT_THAT(std::string(evaluated.message()),
              HasSubstr("step 1, group 0, stage 1: the held-out loss is"));
  const absl::Status second = trainer->Step().status();
  EXPECT_TRUE(absl::IsOutOfRange(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("step 2, group 0, stage "));
  EXPECT_EQ(trainer->step(), 1);
}

// Of a run of 2 stages whose last one sends a gradient of no numbers in step 3, so that the first
// stage's alone is not finite and the loss is.
class NoNumberInAGradient {
 public:
  explicit NoNumberInAGradient(const TrainSpec& spec) {
    std::vector<LocalRank> ranks = MemoryRanks(spec);
    ranks[1].watch = [this](const BoundaryTensor& x) {
      if (x.gradient && trainer_->step() == 2) x.values.detach()[0][0] = std::nanf("");
    };
    trainer_ = *Trainer::Create(spec, std::move(ranks), SmallCorpus(), TestClock);
  }
  Trainer& trainer() { return *trainer_; }
  // What step 3 says.
  absl::Status Third() {
    for (int step = 1; step < 3; ++step) EXPECT_TRUE(trainer_->Step().ok());
    return trainer_->Step().status();
  }

 private:
  std::unique_ptr<Trainer> trainer_;
};

TEST(Divergence, OfAGradientIsSaidInItsStepByEveryOptimizerWithAndWithoutClipping) {
  at::set_num_threads(1);
  for (const char* optimizer : {"adamw", "muon", "sgd"}) {
    for (const double clip_norm : {1.0, std::numeric_limits<double>::infinity()}) {
      for (const int groups : {1, 2}) {
        TrainSpec spec = SmallSpec(2, groups);
        spec.inner.optimizer = optimizer;
        spec.inner.clip_norm = clip_norm;
        EXPECT_EQ(NoNumberInAGradient(spec).Third(),
                  absl::OutOfRangeError("step 3, group 0, stage 0: NaN or Inf in the gradient of "
                                        "embedding.token"))
            << optimizer << ", clip " << clip_norm << ", groups " << groups;
      }
    }
  }
}

TEST(Divergence, OfAGradientTouchesNothingOfAnyRank) {
  const TrainSpec spec = SmallSpec(2, 2);
  const auto moments = [](Trainer& trainer, const std::string& name) {
    std::string all;
    for (int stage = 0; stage < 2; ++stage) {
      const std::string folder = testing::TempDir() + "/divergence_" + name;
      std::filesystem::create_directories(folder);
      EXPECT_TRUE(trainer.WriteState(stage, 0, 1, folder).ok());
      for (const char* file : {"/moments-0/first.f32", "/moments-0/second.f32"}) {
        std::ifstream in(folder + file, std::ios::binary);
        all.append(std::istreambuf_iterator<char>(in), {});
      }
      std::filesystem::remove_all(folder);
    }
    return all;
  };
  NoNumberInAGradient broken(spec);
  EXPECT_TRUE(absl::IsOutOfRange(broken.Third()));
  EXPECT_EQ(broken.trainer().step(), 2);
  const std::unique_ptr<Trainer> whole = NewTrainer(spec);
  History history;
  RunSteps(*whole, 2, &history);
  const std::string after_two = moments(*whole, "whole");
  EXPECT_GT(after_two.size(), 1000u);
  EXPECT_TRUE(moments(broken.trainer(), "broken") == after_two);
  RunSteps(*whole, 1, &history);
  EXPECT_FALSE(moments(*whole, "whole") == after_two);
}

TEST(Divergence, OfParametersIsNoCheckpoint) {
  TrainSpec spec = SmallSpec(2, 1);
  spec.inner.lr = 1e39;  // beyond f32
  spec.inner.warmup_steps = 0;
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  ASSERT_TRUE(trainer->Step().ok());
  const std::string folder = testing::TempDir() + "/divergence_checkpoint";
  std::filesystem::create_directories(folder);
  const absl::Status saved = trainer->SaveCheckpoint(folder);
  EXPECT_TRUE(absl::IsOutOfRange(saved)) << saved;
  EXPECT_THAT(std::string(saved.message()),
              HasSubstr("step 1, group 0, stage 0: NaN or Inf in parameters"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(Trainer, DeadNeighbourIsUnavailableAndSaysWhere) {
  const TrainSpec spec = SmallSpec(2, 1);
  std::vector<LocalRank> ranks = MemoryRanks(spec);
  auto trainer = Trainer::Create(spec, {ranks[0]}, SmallCorpus(), TestClock);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  static_cast<MemoryBackend&>(*ranks[1].boundary).Die();
  const absl::Status status = (*trainer)->Step().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("step 1, group 0, stage 0"));
  EXPECT_TRUE(absl::IsFailedPrecondition((*trainer)->Step().status()));
}

// DiLoCo's reference: G groups of B rows are one group of G B rows, which it reads in one order.
TEST(Trainer, DataParallelGroupsTrainAsOneWithTheWholeBatch) {
  TrainSpec whole = SmallSpec(2, 1), shared = SmallSpec(2, 4);
  whole.batch_rows = 16;
  shared.batch_rows = 4;
  shared.microbatches = 1;
  shared.outer = {.inner_steps = 0, .algorithm = "dp"};
  const std::vector<double> one = RunAll(whole).losses, four = RunAll(shared).losses;
  ASSERT_EQ(four.size(), 4 * one.size());
  for (size_t step = 0; step < one.size(); ++step) {
    const double* groups = &four[4 * step];
    EXPECT_NEAR((groups[0] + groups[1] + groups[2] + groups[3]) / 4, one[step], 1e-4)
        << "step " << step + 1;
  }
}

TEST(Trainer, OneGroupAloneTakesOuterStepsToo) {
  TrainSpec spec = SmallSpec(2, 1);
  const History without = RunAll(spec);
  spec.outer.inner_steps = 4;
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  for (int64_t step = 1; step <= spec.steps; ++step) {
    const auto reports = trainer->Step();
    ASSERT_TRUE(reports.ok()) << reports.status();
    EXPECT_EQ(reports->back().outer_synced, step % 4 == 0);
    EXPECT_EQ(reports->back().outer_bytes_sent, 0);
    EXPECT_EQ(*reports->back().loss == without.losses[step - 1], step <= 4) << "step " << step;
  }
}

TEST(Trainer, StepsEndWithTheRun) {
  TrainSpec spec = SmallSpec(1, 1);
  spec.steps = 2;
  spec.inner.warmup_steps = 0;
  const std::unique_ptr<Trainer> trainer = NewTrainer(spec);
  History history;
  RunSteps(*trainer, 2, &history);
  EXPECT_TRUE(absl::IsFailedPrecondition(trainer->Step().status()));
}

TEST(Trainer, BadSpecsAreRefusedByName) {
  const auto refusal = [](auto change) {
    TrainSpec spec = SmallSpec(2, 1);
    change(&spec);
    const auto trainer = Trainer::Create(spec, MemoryRanks(spec), SmallCorpus(), TestClock);
    return std::string(trainer.status().message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](TrainSpec* s) { s->schedule = "zb"; }), HasSubstr("gpipe, 1f1b"));
  EXPECT_THAT(refusal([](TrainSpec* s) { s->model.heads = 5; }), HasSubstr("5 heads"));
  EXPECT_THAT(refusal([](TrainSpec* s) {
                s->outer.inner_steps = 2;
                s->outer.codec = "int5";
              }),
              HasSubstr("int5"));
  EXPECT_THAT(refusal([](TrainSpec* s) {
                s->outer.inner_steps = 2;
                s->outer.codec = "int4-b64+ef21";
              }),
              HasSubstr("'int4-b64+ef21' keeps a state at the receiving end"));
  EXPECT_THAT(refusal([](TrainSpec* s) { s->model.vocab = 300; }), HasSubstr("vocab 300"));
}

}  // namespace
}  // namespace longhaul
