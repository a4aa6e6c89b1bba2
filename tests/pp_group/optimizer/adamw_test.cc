// The inner optimizer by hand: the rate at its bounds, two updates, what is clipped with what.
#include "pp_group/optimizer/adamw.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/pp_group/flat_stage.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(LearningRate, ClimbsToThePeakAndFallsToItsFraction) {
  const AdamWSpec spec{.lr = 8, .min_lr_fraction = 0.25, .warmup_steps = 4};
  const auto rate = [&](int64_t step) { return LearningRate(spec, step, 12); };
  EXPECT_DOUBLE_EQ(rate(0), 2);  // the first step moves
  EXPECT_DOUBLE_EQ(rate(2), 6);
  EXPECT_DOUBLE_EQ(rate(3), 8);  // the last of the warm-up has the peak
  EXPECT_DOUBLE_EQ(rate(4), 8);  // where the cosine begins
  EXPECT_DOUBLE_EQ(rate(6), 2 + 6 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(rate(8), 2 + 6 * 0.5);
  EXPECT_DOUBLE_EQ(rate(10), 2 + 6 * (1 - std::sqrt(0.5)) / 2);
  EXPECT_GT(rate(11), 2);
  EXPECT_DOUBLE_EQ(rate(12), 2) << "after the last step";
  EXPECT_DOUBLE_EQ(rate(20), 2) << "and it stays there";
}

TEST(LearningRate, WithoutWarmUpBeginsAtThePeak) {
  const AdamWSpec spec{.lr = 3};
  EXPECT_DOUBLE_EQ(LearningRate(spec, 0, 10), 3);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 5, 10), 0.3 + 2.7 / 2);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 10, 10), 0.3);
}

TEST(LearningRate, WithADecayStaysAtThePeakAndFallsByALine) {
  const AdamWSpec spec{
      .lr = 8, .min_lr_fraction = 0.25, .warmup_steps = 2, .schedule = "wsd", .decay_share = 0.3};
  const auto rate = [&](int64_t step, int64_t steps) { return LearningRate(spec, step, steps); };
  EXPECT_DOUBLE_EQ(rate(0, 12), 4);
  EXPECT_DOUBLE_EQ(rate(1, 12), 8);
  EXPECT_DOUBLE_EQ(rate(7, 12), 8);
  EXPECT_DOUBLE_EQ(rate(8, 12), 8) << "where the line begins";
  EXPECT_DOUBLE_EQ(rate(9, 12), 6.5);
  EXPECT_DOUBLE_EQ(rate(11, 12), 3.5);
  EXPECT_DOUBLE_EQ(rate(12, 12), 2) << "after the last step";
  for (int64_t step = 0; step < 8; ++step) {
    EXPECT_DOUBLE_EQ(rate(step, 12), rate(step, 30)) << "the same until the shorter run decays";
  }
}

TEST(LearningRate, OfAWarmUpAsLongAsTheRunIsALine) {
  const AdamWSpec spec{.lr = 4, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(LearningRate(spec, 1, 4), 2);
  EXPECT_DOUBLE_EQ(LearningRate(spec, 3, 4), 4);
}

// Two clip groups: a matrix of two with a vector of one, and a matrix of two of four rows, whose
// others are on another rank.
StageLayout TwoClipGroups() {
  StageLayout layout = EmptyLayout(1, 0, 1, {});
  LayoutBuilder builder(&layout);
  builder.BeginClipGroup();
  builder.Matrix("a", 0, 1, 2, 1);
  builder.Vector("b", 1, 1, 0);
  builder.BeginClipGroup();
  builder.MatrixRows("c", 2, 0, 2, 4, 1, 1);
  return layout;
}

class Update : public testing::Test {
 protected:
  // In the order a, b, c.
  void Set(const at::Tensor& flat, const std::vector<float>& values) {
    for (size_t i = 0; i < kAt.size(); ++i) flat[kAt[i]] = values[i];
  }
  std::vector<float> Of(const at::Tensor& flat) {
    std::vector<float> values;
    for (const int64_t at : kAt) values.push_back(flat[at].item<float>());
    return values;
  }

  const std::vector<int64_t> kAt = {0, 1, 64, 128, 129};
  FlatStage stage_{TwoClipGroups()};
  AdamWSpec spec_{.lr = 0.5,
                  .min_lr_fraction = 0.5,
                  .beta1 = 0.5,
                  .beta2 = 0.75,
                  .eps = 0.125,
                  .weight_decay = 0.25,
                  .clip_norm = std::numeric_limits<double>::infinity()};
};

TEST_F(Update, IsAdamsWithTheDecayOfMatricesAlone) {
  AdamW adamw(spec_, stage_);
  Set(stage_.parameters(), {16, 16, 16, 0, -16});
  Set(stage_.gradients(), {0.375, -0.875, 0.375, 0, 1.875});
  EXPECT_EQ(adamw.Step(0, 2, &stage_, GradientNorms(stage_)), 0);
  // Corrected, the moments are g and g squared: theta (1 - 0.5 x 0.25) - 0.5 g / (|g| + 1/8).
  EXPECT_THAT(Of(stage_.parameters()),
              ElementsAre(14 - 0.375, 14 + 0.4375, 16 - 0.375, 0, -14 - 0.46875));
  EXPECT_THAT(Of(adamw.first_moment()), ElementsAre(0.1875, -0.4375, 0.1875, 0, 0.9375));
  EXPECT_THAT(Of(adamw.second_moment()),
              ElementsAre(0.03515625, 0.19140625, 0.03515625, 0, 0.87890625));

  // Then none at all, at 3/4 of the peak: g/3 remains of the first moment and 3/7 g^2 of the second.
  stage_.ZeroGradients();
  const std::vector<float> before = Of(stage_.parameters());
  adamw.Step(1, 2, &stage_, GradientNorms(stage_));
  const std::vector<float> after = Of(stage_.parameters());
  const auto moved = [](double g) {
    return 0.375 * g / 3 / (std::abs(g) * std::sqrt(3.0 / 7) + 0.125);
  };
  const double kept = 1 - 0.375 * 0.25;
  EXPECT_NEAR(after[0], before[0] * kept - moved(0.375), 2e-6);
  EXPECT_NEAR(after[1], before[1] * kept - moved(-0.875), 2e-6);
  EXPECT_NEAR(after[2], before[2] - moved(0.375), 2e-6);
  EXPECT_EQ(after[3], 0);
  EXPECT_NEAR(after[4], before[4] * kept - moved(1.875), 2e-6);
}

TEST_F(Update, ForgottenMomentsAreThoseOfAnotherStart) {
  AdamW adamw(spec_, stage_), fresh(spec_, stage_);
  Set(stage_.gradients(), {1, 2, 3, 4, 5});
  adamw.Step(0, 9, &stage_, GradientNorms(stage_));
  adamw.ForgetMoments();
  stage_.parameters().zero_();
  adamw.Step(1, 9, &stage_, GradientNorms(stage_));
  const std::vector<float> forgot = Of(stage_.parameters());
  stage_.parameters().zero_();
  fresh.Step(1, 9, &stage_, GradientNorms(stage_));
  EXPECT_EQ(forgot, Of(stage_.parameters()));
}

// Group 0 is (2, 4) of the matrix with 4 of the vector: 6 long. Group 1 is (3, 4): 5 long.
TEST_F(Update, ClipsEachGroupByTheNormOfAllItsParameters) {
  Set(stage_.gradients(), {2, 4, 4, 3, 4});
  const auto moments = [this](double clip_norm, int clipped, const std::vector<double>& spread) {
    spec_.clip_norm = clip_norm;
    AdamW adamw(spec_, stage_);
    EXPECT_EQ(adamw.Step(0, 2, &stage_, GradientNorms(stage_, spread)), clipped) << clip_norm;
    return Of(adamw.first_moment());  // half the gradient
  };
  const std::vector<double> own = {0, 25};  // the other rank's rows are zero
  EXPECT_THAT(moments(6, 0, own), ElementsAre(1, 2, 2, 1.5, 2)) << "as long as allowed";
  EXPECT_THAT(moments(5.5, 1, own),
              ElementsAre(FloatEq(5.5 / 6), FloatEq(11.0 / 6), FloatEq(11.0 / 6), 1.5, 2));
  EXPECT_THAT(moments(3, 2, own), ElementsAre(0.5, 1, 1, FloatEq(0.9f), FloatEq(1.2f)));
  // The other rank's rows are 12 long: 13 with these.
  EXPECT_THAT(moments(6.5, 1, {0, 144 + 25}), ElementsAre(1, 2, 2, 0.75, 1));
  EXPECT_THAT(moments(13, 0, {0, 144 + 25}), ElementsAre(1, 2, 2, 1.5, 2));
}

TEST_F(Update, SquaresOfWhatIsSpreadStandApart) {
  Set(stage_.gradients(), {2, 4, 4, 3, 4});
  const ClipSquares squares = ClipSquaresOf(stage_);
  EXPECT_THAT(squares.shared, ElementsAre(36, 0));
  EXPECT_THAT(squares.spread, ElementsAre(0, 25));
}

TEST(ClipSquares, OfOneGroupAreAddedUpAroundWhatIsSpread) {
  StageLayout layout = EmptyLayout(1, 0, 1, {});
  LayoutBuilder builder(&layout);
  builder.BeginClipGroup();
  builder.Vector("a", 0, 1, 0);
  builder.MatrixRows("b", 1, 2, 2, 4, 1, 1);
  builder.Vector("c", 2, 1, 0);
  builder.MatrixRows("d", 3, 2, 2, 4, 1, 1);
  const FlatStage stage(layout);
  for (int64_t i = 0; i < 4; ++i) stage.gradients()[64 * i] = i + 1;
  EXPECT_THAT(ClipSquaresOf(stage).shared, ElementsAre(1 + 9));
  EXPECT_THAT(ClipSquaresOf(stage).spread, ElementsAre(4 + 16));
}

TEST_F(Update, ANormOfNoNumberIsNoNumber) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Set(stage_.gradients(), {bad, 0, 0, 0.5, 0});
    const std::vector<double> norms = GradientNorms(stage_);
    EXPECT_FALSE(std::isfinite(norms[0]));
    EXPECT_EQ(norms[1], 0) << "what is spread counts by the squares of all ranks";
    EXPECT_FALSE(std::isfinite(GradientNorms(stage_, {0, std::nan("")})[1])) << "of another rank";
  }
}

}  // namespace
}  // namespace longhaul
