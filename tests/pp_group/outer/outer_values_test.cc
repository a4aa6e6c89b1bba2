// Outer algorithms on a few numbers, by hand and as public programs publish them.
#include <cmath>

#include <ATen/ATen.h>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/optimizer/muon.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/state/checkpoint.h"
#include "tests/pp_group/flat_stage.h"
#include "tests/pp_group/memory_backend.h"
#include "tests/pp_group/training.h"

namespace longhaul {
namespace {

using testing::ElementsAreArray;

// A model of `values` on one stage of each of a few groups.
class Replicas {
 public:
  Replicas(const OuterSpec& spec, int64_t steps, std::vector<float> values, int groups = 2) {
    const auto peers = NewMemoryGroup(groups);
    for (int g = 0; g < groups; ++g) {
      StageLayout layout = EmptyLayout(1, 0, 1, {});
      LayoutBuilder builder(&layout);
      builder.BeginClipGroup();
      builder.Vector("x", 0, static_cast<int64_t>(values.size()), 0);
      stages.push_back(std::make_unique<FlatStage>(layout));
      at::Tensor all = stages.back()->parameters();
      for (size_t i = 0; i < values.size(); ++i) all[static_cast<int64_t>(i)] = values[i];
      outer.push_back(*NewOuterAlgorithm(spec, {.plan = OuterPlan(spec, steps),
                                                .place = {g, groups, 0, 5, peers[g]},
                                                .stage = stages.back().get(),
                                                .host_parameters = all,
                                                .experts = {}}));
    }
  }
  float* theta(int g) { return stages[g]->parameters().data_ptr<float>(); }
  void Begin(const OuterExchange& e) {
    for (auto& o : outer) ASSERT_TRUE(o->Encode(e).ok());
    for (auto& o : outer) o->exchange(e.fragment).Send();
  }
  void Apply(const OuterExchange& e) {
    for (auto& o : outer) ASSERT_TRUE(o->SquaredNorms(e.fragment).ok());
    for (auto& o : outer) {
      ASSERT_TRUE(o->Average(e.fragment, std::vector<bool>(outer.size(), false)).ok());
      ASSERT_TRUE(o->Apply(e).ok());
    }
  }
  std::vector<std::unique_ptr<FlatStage>> stages;
  std::vector<std::unique_ptr<OuterAlgorithm>> outer;
};

// By hand: deltas (1, 2) and (3, -2), then (-4, 8) and (2, 0).
TEST(TurnOfAverage, IsOfTheMeanAgainstTheMeanBefore) {
  Replicas run({.inner_steps = 1, .lr = 1, .momentum = 0}, /*steps=*/100, {0, 0});
  const auto round = [&](int64_t step, const std::vector<std::vector<float>>& deltas) {
    for (int g : {0, 1}) {
      for (int i : {0, 1})
        run.theta(g)[i] -= deltas[static_cast<size_t>(g)][static_cast<size_t>(i)];
    }
    run.Begin({step, step, 0});
    run.Apply({step, step, 0});
    return run.outer[0]->exchange().TurnOfAverage();
  };
  const GroupAverage::Turn first = round(1, {{1, 2}, {3, -2}});  // (2, 0)
  EXPECT_EQ(first.squared_norm, 4);
  EXPECT_FALSE(first.last_squared_norm || first.dot);
  const GroupAverage::Turn second = round(2, {{-4, 8}, {2, 0}});  // (-1, 4)
  EXPECT_EQ(second.squared_norm, 17);
  EXPECT_EQ(second.last_squared_norm, 4);
  EXPECT_EQ(second.dot, -2);
  run.outer[0]->exchange().ForgetLast();
  EXPECT_FALSE(round(3, {{1, 0}, {1, 0}}).dot);
}

// Without momentum what is kept as such is the mean delta: PyTorch reads it from checkpoints.
std::vector<at::Tensor> MeanDeltas(Trainer& trainer) {
  std::vector<at::Tensor> means;
  const std::vector<Checkpoint> ranks = *trainer.Snapshot();
  for (const Checkpoint& rank : ranks) {
    if (rank.group != 0) continue;
    const auto bytes = *rank.Section("outer.momentum");
    at::Tensor mean = at::empty({static_cast<int64_t>(bytes.size() / sizeof(float))}, at::kFloat);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(mean.data_ptr<float>()));
    means.push_back(mean.to(at::kDouble));
  }
  return means;
}

TEST(OuterDeltas, ReportsAreWhatPyTorchMakesOfTheMeansOfTwoRounds) {
  TrainSpec spec = SmallSpec(2, 2);
  spec.outer.inner_steps = 3;
  spec.outer.momentum = 0;
  const std::string folder =
      testing::TempDir() + "/outer_deltas_" + std::to_string(reinterpret_cast<uintptr_t>(&spec));
  const auto trainer = NewTrainer(spec);
  std::vector<at::Tensor> before;
  std::vector<StepReport> at_six;
  for (int64_t step = 1; step <= 6; ++step) {
    const std::vector<StepReport> reports = *trainer->Step();
    if (step == 6) at_six = reports;
    for (const StepReport& report : reports) {
      EXPECT_EQ(report.outer_deltas.size(), step % 3 == 0 && report.group == 0 ? 1u : 0u)
          << "step " << step << ", group " << report.group;
    }
    if (step != 3) continue;
    EXPECT_FALSE(reports[0].outer_deltas[0].dot) << "there is no mean before the first";
    before = MeanDeltas(*trainer);
    const std::vector<Checkpoint> ranks = *trainer->Snapshot();
    for (const Checkpoint& rank : ranks) {
      ASSERT_TRUE(WriteCheckpoint(folder, rank).ok());
    }
  }
  const std::vector<at::Tensor> now = MeanDeltas(*trainer);
  double squared = 0;
  for (size_t s = 0; s < now.size(); ++s) {
    const OuterDelta& told = at_six[s].outer_deltas[0];
    const auto near = [](double want, double got) { EXPECT_NEAR(got, want, 1e-12 * (1 + want)); };
    near(now[s].dot(now[s]).item<double>(), told.squared_norm);
    near(before[s].dot(before[s]).item<double>(), told.last_squared_norm.value());
    near(now[s].dot(before[s]).item<double>(), told.dot.value());
    squared += told.squared_norm;
  }
  ASSERT_EQ(now.size(), 2u);
  for (size_t s = 0; s < now.size(); ++s) {
    const double members = at_six[s].outer_deltas[0].member_norm.value();
    EXPECT_GT(members, std::sqrt(squared)) << "the groups' deltas are not equal";
    EXPECT_LT(members, 2 * std::sqrt(squared));
  }
  // A resumed run trains the same; what its first outer step followed it does not know.
  const auto resumed = NewTrainer(spec);
  ASSERT_TRUE(resumed->LoadCheckpoint(folder).ok());
  std::filesystem::remove_all(folder);
  std::vector<StepReport> again;
  while (resumed->step() < 6) again = *resumed->Step();
  EXPECT_EQ(again[0].outer_deltas[0].squared_norm, at_six[0].outer_deltas[0].squared_norm);
  EXPECT_FALSE(again[0].outer_deltas[0].dot || again[0].outer_deltas[0].last_squared_norm);
}

TEST(OuterDeltas, OneGroupAloneIsItsOwnMean) {
  TrainSpec spec = SmallSpec(1, 1);
  spec.outer = {.inner_steps = 2, .lr = 0.7, .momentum = 0.5};
  const auto trainer = NewTrainer(spec);
  ASSERT_TRUE(trainer->Step().ok());
  const OuterDelta told = (*trainer->Step())[0].outer_deltas.at(0);
  EXPECT_NEAR(told.member_norm.value(), std::sqrt(told.squared_norm), 1e-9);
}

// By hand, in binary fractions: two groups of a number each, rate 1/2, momentum 1/2, of which the
// second is left out of the first average.
TEST(Eager, AGroupThatWasLeftOutDropsWhatItIsAheadBy) {
  Replicas run(
      {.inner_steps = 1, .lr = 0.5, .momentum = 0.5, .algorithm = "eager", .overlap_steps = 1},
      /*steps=*/100, {8});
  run.theta(0)[0] -= 2, run.theta(1)[0] -= 4;
  run.Begin({1, 2, 0});
  // Own halves 1 and 2, with momentum 1.5 and 3 times the rate.
  EXPECT_EQ(run.theta(0)[0], 7.25f);
  EXPECT_EQ(run.theta(1)[0], 6.5f);
  for (auto& o : run.outer) {
    ASSERT_TRUE(o->SquaredNorms(0).ok());
    ASSERT_TRUE(o->Average(0, {false, true}).ok());
    ASSERT_TRUE(o->Apply({1, 2, 0}).ok());
  }
  // The average is 2: 8 - (2 + 1) / 2.
  EXPECT_EQ(run.theta(0)[0], 5.75f);
  EXPECT_EQ(run.theta(1)[0], 6.5f);
}

// The first of two rounds in which the rate grows to 1/2: 8 + (mean(4, 6) - 8) / 4.
TEST(Noloco, TakesTheRateOfTheRound) {
  Replicas run(
      {.inner_steps = 1, .lr = 0.5, .momentum = 0, .algorithm = "noloco", .lr_warmup_rounds = 2},
      /*steps=*/100, {8});
  run.theta(0)[0] = 4, run.theta(1)[0] = 6;
  run.Begin({1, 1, 0});
  run.Apply({1, 1, 0});
  EXPECT_EQ(run.theta(0)[0], 7.25f);
}

// torchft's fixtures (test_diloco_mocked_updates): two fragments of a number each, 1 at first; the
// gradient is 2, inner rate 1, outer SGD 2 without momentum; a fragment every three steps in turn,
// taken `delay` steps before its turn. Their published values of fixtures 0 and 4, the first layer;
// the other four by the rule that is behind them, by hand.
struct Fixture {
  int64_t delay;
  double alpha;
  std::vector<float> first_layer;
};

TEST(Streaming, HasTheValuesOfTorchftsFixtures) {
  for (const Fixture& f :
       std::vector<Fixture>{{0, 0, {1, -1, -3, -11, -13, -15, -17, -19, -21, -35}},
                            {0, 0.5, {1, -1, -3, -8, -10, -12, -14, -16, -18, -24.5}},
                            {0, 1, {1, -1, -3, -5, -7, -9, -11, -13, -15, -17}},
                            {1, 0, {1, -1, -3, -7, -9, -11, -13, -15, -17, -27}},
                            {1, 0.5, {1, -1, -3, -6, -8, -10, -12, -14, -16, -21.5}},
                            {1, 1, {1, -1, -3, -5, -7, -9, -11, -13, -15, -17}}}) {
    Replicas run(
        {.inner_steps = 6, .lr = 2, .momentum = 0, .algorithm = "streaming", .mix = f.alpha},
        /*steps=*/100, {1});
    std::vector<float> seen = {1};
    for (int64_t step = 1; step <= 9; ++step) {
      for (int g = 0; g < 2; ++g) run.theta(g)[0] -= 2;
      const OuterExchange mine{step, step + f.delay, 0}, due{step - f.delay, step, 0};
      if ((step + f.delay) % 6 == 3) run.Begin(mine);
      if (step % 6 == 3) run.Apply(due);
      EXPECT_EQ(run.theta(0)[0], run.theta(1)[0]);
      seen.push_back(run.theta(0)[0]);
    }
    EXPECT_THAT(seen, ElementsAreArray(f.first_layer)) << f.delay << ", " << f.alpha;
  }
}

// MaxText's test of DiLoCo: two replicas of a linear map from 2 to 1, mean squared error, inner SGD
// 0.1, outer Nesterov 1.0 and 0.9, H = 3.
TEST(Diloco, HasTheValuesOfMaxTextsTest) {
  Replicas run({.inner_steps = 3, .lr = 1, .momentum = 0.9}, /*steps=*/100, {2, 1, 1});
  const float inputs[2][2][2] = {{{0, 1}, {1, 0}}, {{1, 0}, {0, 1}}};
  const float labels[2][2] = {{1, 2}, {2, 3}};
  std::vector<double> losses;
  for (int64_t step = 1; step <= 4; ++step) {
    double loss = 0;
    for (int g = 0; g < 2; ++g) {
      float* w = run.theta(g);
      float gradient[3] = {0, 0, 0};
      for (int row = 0; row < 2; ++row) {
        const float* x = inputs[g][row];
        const float error = w[0] * x[0] + w[1] * x[1] + w[2] - labels[g][row];
        loss += error * error / 4;
        for (int i = 0; i < 3; ++i) gradient[i] += error * (i < 2 ? x[i] : 1);
      }
      for (int i = 0; i < 3; ++i) w[i] -= 0.1f * gradient[i];
    }
    losses.push_back(loss);
    if (step != 3) continue;
    run.Begin({3, 3, 0});
    run.Apply({3, 3, 0});
    EXPECT_NEAR(run.theta(0)[0], 1.5345, 5e-5);
    EXPECT_NEAR(run.theta(0)[1], 1.0494, 5e-5);
    EXPECT_NEAR(run.theta(1)[2], 0.5839, 5e-5);
  }
  EXPECT_NEAR(losses[0], 1.0, 1e-6);
  EXPECT_NEAR(losses[1], 0.65, 1e-6);
  EXPECT_NEAR(losses[2], 0.4481, 5e-5);
  EXPECT_NEAR(losses[3], 0.574244, 1e-5);
}

// One of four sends an element, three another: 3 of 64 values is what each sends.
TEST(Sparseloco, MeansOverAllOrOverThoseThatSent) {
  for (const auto& [mean, alone, together] :
       {std::tuple{"all", 2.0f, 3.0f}, std::tuple{"senders", 8.0f, 4.0f}}) {
    Replicas run({.inner_steps = 1,
                  .lr = 1,
                  .momentum = 0,
                  .codec = "topk-1of64+fp16",
                  .algorithm = "sparseloco",
                  .mean = mean},
                 /*steps=*/100, std::vector<float>(64, 0), /*groups=*/4);
    run.theta(0)[5] = -8;
    for (int g = 1; g < 4; ++g) run.theta(g)[9] = -4;
    run.Begin({1, 1, 0});
    run.Apply({1, 1, 0});
    for (int g = 0; g < 4; ++g) {
      EXPECT_EQ(run.theta(g)[5], -alone) << mean;
      EXPECT_EQ(run.theta(g)[9], -together) << mean;
      EXPECT_EQ(run.theta(g)[10], 0) << mean;
    }
  }
}

// Of a matrix whose singular vectors are known: each becomes what the five polynomials make of it.
TEST(Muon, BringsSingularValuesNearOne) {
  const at::Tensor tall = at::zeros({5, 3});
  for (int i = 0; i < 3; ++i) tall[i][i] = std::vector<double>{3, -2, 0.5}[i];
  const at::Tensor y = Orthogonalized(tall);
  const double norm = std::sqrt(9 + 4 + 0.25) + 1e-7;
  for (int i = 0; i < 3; ++i) {
    double x = std::vector<double>{3, -2, 0.5}[i] / norm;
    for (const auto& [a, b, c] :
         std::vector<std::tuple<double, double, double>>{{4.0848, -6.8946, 2.9270},
                                                         {3.9505, -6.3029, 2.6377},
                                                         {3.7418, -5.5913, 2.3037},
                                                         {2.8769, -3.1427, 1.2046},
                                                         {2.8366, -3.0525, 1.2012}}) {
      x = a * x + b * x * x * x + c * x * x * x * x * x;
    }
    EXPECT_NEAR(std::abs(x), 1, 0.15);
    EXPECT_NEAR(y[i][i].item<double>(), x, 1e-5);
  }
  EXPECT_EQ(Orthogonalized(at::zeros({3, 4})).abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace longhaul
