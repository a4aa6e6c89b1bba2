// Outer algorithms on a few numbers, by hand and as public programs publish them.
#include <cmath>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/optimizer/muon.h"
#include "pp_group/outer/algorithm.h"
#include "tests/pp_group/flat_stage.h"
#include "tests/pp_group/memory_backend.h"

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
