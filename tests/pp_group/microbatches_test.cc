// In how many micro-batches a batch is run decides the order of sums and nothing else.
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "gtest/gtest.h"
#include "pp_group/executor.h"
#include "pp_group/models/model.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/check.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

constexpr int64_t kRows = 4;

struct BatchOutcome {
  double mean_loss;      // of the batch's tokens, nat
  at::Tensor gradients;  // of all stages, f64
};

// One step of two stages, with their parameters moved by `ahead` where it is given.
BatchOutcome RunBatch(const ModelSpec& model, int microbatches, const at::Tensor& ahead = {}) {
  at::set_num_threads(1);
  constexpr int kStages = 2;
  const PipelineProgram program = ProgramOf(*FindSchedule("1f1b"), kStages, microbatches);
  const std::function<absl::Duration()> now = [] { return absl::ZeroDuration(); };
  const auto group = NewMemoryGroup(kStages);
  std::vector<int64_t> rows(kRows * (model.context + 1));
  for (int64_t i = 0; i < std::ssize(rows); ++i) rows[i] = (i * i + 5 * i) % model.vocab;
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<std::unique_ptr<PipelineRank>> ranks;
  int64_t at = 0;
  for (int s = 0; s < kStages; ++s) {
    stages.push_back(
        *NewStage(model, {.stage = s, .stages = kStages, .seed = 3, .microbatches = microbatches}));
    const at::Tensor& parameters = stages.back()->parameters();
    if (ahead.defined()) parameters.add_(ahead.narrow(0, at, parameters.numel()));
    at += parameters.numel();
    stages.back()->ParametersChanged();
    stages.back()->ZeroGradients();
    ranks.push_back(std::make_unique<PipelineRank>(std::vector<Stage*>{stages.back().get()},
                                                   group[s], program, s, kRows / microbatches,
                                                   &now));
    ranks.back()->BeginStep(rows);
  }
  const Program order = *GlobalOrder(program);
  for (const Action& action : order) ranks[action.stage]->Run(action);
  for (auto& rank : ranks) rank->FinishSends();
  std::vector<at::Tensor> parts;
  for (const auto& stage : stages) parts.push_back(stage->gradients().to(at::kDouble));
  return {*ranks.back()->loss_sum() / static_cast<double>(kRows * model.context), at::cat(parts)};
}

class Microbatches : public testing::TestWithParam<std::string> {
 protected:
  ModelSpec Model() const {
    ModelSpec model = SmallSpec(2, 1, GetParam()).model;
    model.blocks = 2;
    model.context = 8;
    model.balance_loss = 0;  // of a micro-batch's routing, and not of the batch's
    return model;
  }
};

TEST_P(Microbatches, GiveEqualLossesAndGradientsHoweverManyThereAre) {
  const BatchOutcome whole = RunBatch(Model(), 1);
  const double norm = whole.gradients.norm().item<double>();
  EXPECT_NEAR(whole.mean_loss, std::log(256.0), 0.1);
  for (const int microbatches : {2, 4}) {
    const BatchOutcome apart = RunBatch(Model(), microbatches);
    EXPECT_NEAR(apart.mean_loss, whole.mean_loss, 1e-6) << microbatches;
    EXPECT_LE((apart.gradients - whole.gradients).norm().item<double>(), 1e-5 * norm)
        << microbatches;
  }
}

// A step along the gradient raises the mean loss by its length times the gradient's.
TEST_P(Microbatches, GradientsAreThoseOfTheMeanLossOfTheBatch) {
  for (const int microbatches : {1, 4}) {
    const BatchOutcome here = RunBatch(Model(), microbatches);
    const double norm = here.gradients.norm().item<double>(), length = 0.01;
    const at::Tensor step = (here.gradients * (length / norm)).to(at::kFloat);
    const double up = RunBatch(Model(), microbatches, step).mean_loss,
                 down = RunBatch(Model(), microbatches, -step).mean_loss;
    EXPECT_NEAR((up - down) / (2 * length), norm, 0.02 * norm) << microbatches;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Microbatches, testing::ValuesIn(SmallModels()),
                         [](auto& info) { return info.param; });

}  // namespace
}  // namespace longhaul
