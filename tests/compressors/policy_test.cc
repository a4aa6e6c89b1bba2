// The policies on synthetic traces.
#include "compressors/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WarmUp, IsGentleUpToItsLastStep) {
  EXPECT_EQ(WarmUpCodec(0, 100, "bf16", "4x"), "bf16");
  EXPECT_EQ(WarmUpCodec(99, 100, "bf16", "4x"), "bf16");
  EXPECT_EQ(WarmUpCodec(100, 100, "bf16", "4x"), "4x");
  EXPECT_EQ(WarmUpCodec(0, 0, "bf16", "4x"), "4x");
}

TEST(WarmUp, DgcDensitiesAreThoseOfThePaper) {
  const double paper[] = {.25, .0625, .0156, .004, .001, .001};
  for (int epoch = 0; epoch < 6; ++epoch) {
    EXPECT_NEAR(DgcDensity(0.001, epoch, 4), paper[epoch], 0.03 * paper[epoch]) << epoch;
  }
}

TEST(Progressive, TakesTheLastStageThatHasBegun) {
  const std::vector<ProgressiveStage> stages = {{10, "2x"}, {20, "4x"}, {50, "16x"}};
  EXPECT_EQ(ProgressiveCodec(stages, 9), nullptr);
  EXPECT_EQ(ProgressiveCodec(stages, 10)->codec, "2x");
  EXPECT_EQ(ProgressiveCodec(stages, 49)->codec, "4x");
  EXPECT_EQ(ProgressiveCodec(stages, 1000)->codec, "16x");
}

TEST(LayerWise, SpendsTheBudgetWhereItHelpsMost) {
  // Equal layers but for the range: the wide one gets the bits.
  const std::vector<LayerNeed> layers = {{1000, 1, 1}, {1000, 10, 1}, {1000, 1, 0}};
  const std::vector<int> bits = {2, 4, 8};
  EXPECT_THAT(*AllocateBits(layers, bits, 750), ElementsAre(2, 2, 2));
  EXPECT_THAT(*AllocateBits(layers, bits, 1000), ElementsAre(2, 4, 2));
  EXPECT_THAT(*AllocateBits(layers, bits, 1250), ElementsAre(4, 4, 2));
  // A layer that the loss does not mind never gets more than it must.
  EXPECT_THAT(*AllocateBits(layers, bits, 1e9), ElementsAre(8, 8, 2));
  EXPECT_FALSE(AllocateBits(layers, bits, 749).has_value());
}

TEST(LayerWise, IsTheBestOfAllAllocationsUpToOneStep) {
  const std::vector<LayerNeed> layers = {{64, 1, 1}, {128, 3, .5}, {256, .7, 2}};
  const std::vector<int> bits = {2, 3, 4, 6, 8};
  const auto harm = [&](const std::vector<int>& b) {
    double sum = 0;
    for (size_t l = 0; l < 3; ++l) {
      sum += layers[l].sensitivity * layers[l].range * layers[l].range /
             std::pow(std::exp2(b[l]) - 1, 2);
    }
    return sum;
  };
  for (double budget : {130.0, 200.0, 300.0}) {
    const auto chosen = *AllocateBits(layers, bits, budget);
    double best = harm(chosen);
    for (int a : bits) {
      for (int b : bits) {
        for (int c : bits) {
          if ((64 * a + 128 * b + 256 * c) / 8.0 <= budget) best = std::min(best, harm({a, b, c}));
        }
      }
    }
    EXPECT_LE(harm(chosen), 2.5 * best) << budget;
  }
}

BandwidthSpec Links() {
  return {.codecs = {{"bf16", 2e6}, {"4x", 5e5}, {"16x", 1.25e5}}, .slot_s = 0.1};
}

TEST(Bandwidth, TakesTheBestQualityThatFitsTheSlot) {
  std::vector<CodecSwitch> log;
  BandwidthState state;
  for (int64_t step = 50; step < 400; ++step) {
    state = AdaptToBandwidth(Links(), state, step, 6e6, &log);
  }
  EXPECT_EQ(state.current, 1u);  // 5e5 bytes take 83 ms
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].from, "bf16");
  EXPECT_EQ(log[0].to, "4x");
  EXPECT_THAT(log[0].cause, HasSubstr("bandwidth 6 MB/s"));
}

TEST(Bandwidth, DoesNotFlapAtTheBorder) {
  std::vector<CodecSwitch> log;
  BandwidthState state;
  for (int64_t step = 50; step < 5000; ++step) {  // 4x needs 5 MB/s: 4 % above and below
    state = AdaptToBandwidth(Links(), state, step, step / 100 % 2 == 0 ? 4.8e6 : 5.2e6, &log);
  }
  EXPECT_EQ(state.current, 2u);
  EXPECT_LE(log.size(), 2u);
}

TEST(Bandwidth, StaysForTheDwellAndThenFollows) {
  std::vector<CodecSwitch> log;
  BandwidthState state;
  for (int64_t step = 0; step < 50; ++step) {
    state = AdaptToBandwidth(Links(), state, step, 1e5, &log);
    EXPECT_EQ(state.current, 0u) << step;
  }
  for (int64_t step = 50; step < 200; ++step) {
    state = AdaptToBandwidth(Links(), state, step, step < 100 ? 1e5 : 1e9, &log);
  }
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].step, 50);
  EXPECT_EQ(log[0].to, "16x");  // none fits: the smallest
  EXPECT_EQ(log[1].step, 100);
  EXPECT_EQ(log[1].to, "bf16");
}

TEST(Bandwidth, MeasurementsThatAreNoneChangeNothing) {
  const BandwidthState state = {.bytes_per_s = 5, .current = 1, .since_step = 3};
  EXPECT_EQ(AdaptToBandwidth(Links(), state, 1000, 0, nullptr), state);
  EXPECT_EQ(AdaptToBandwidth(Links(), state, 1000, std::nan(""), nullptr), state);
}

TEST(Accuracy, StepsMilderAboveTheBudgetAndStrongerBelowAQuarter) {
  const AccuracySpec spec = {.codecs = {"bf16", "int8-b64", "int4-b64"}, .loss_budget = 0.01};
  std::vector<CodecSwitch> log;
  AccuracyState state = {.current = 1};
  state = AdaptToAccuracy(spec, state, 10, 2.021, 2.0, &log);
  EXPECT_EQ(state.current, 0u);
  EXPECT_FALSE(state.measured) << "what another codec cost says nothing about this one";
  state = AdaptToAccuracy(spec, state, 20, 2.005, 2.0, &log);
  EXPECT_EQ(state.current, 0u) << "between a quarter and the whole budget nothing changes";
  for (int64_t step = 30; step < 300; step += 10) {
    state = AdaptToAccuracy(spec, state, step, 2.0001, 2.0, &log);
  }
  EXPECT_EQ(state.current, 2u);
  ASSERT_EQ(log.size(), 3u);
  EXPECT_THAT(log[0].cause, HasSubstr("0.021 nat of a budget of 0.01"));
}

TEST(PerLink, SplitsBySite) {
  EXPECT_EQ(CodecOfLink("eu", "eu", "bf16", "16x"), "bf16");
  EXPECT_EQ(CodecOfLink("eu", "us", "bf16", "16x"), "16x");
}

TEST(SmallTensors, AreLeftAlone) {
  EXPECT_FALSE(IsWorthCompressing(4095, false));
  EXPECT_TRUE(IsWorthCompressing(4096, false));
  EXPECT_FALSE(IsWorthCompressing(1 << 20, true));
}

// From 100 towards 200 by a fifth, then towards 0: 120, 96.
TEST(Bandwidth, ANewMeasurementCountsAFifth) {
  const BandwidthSpec spec = {.codecs = {{"bf16", 1}, {"4x", 0.5}}, .slot_s = 1e9};
  BandwidthState state = AdaptToBandwidth(spec, {}, 0, 100, nullptr);
  EXPECT_EQ(state.bytes_per_s, 100) << "the first is taken as it is";
  state = AdaptToBandwidth(spec, state, 1, 200, nullptr);
  EXPECT_DOUBLE_EQ(state.bytes_per_s, 120);
  state = AdaptToBandwidth(spec, state, 2, 1e-300, nullptr);
  EXPECT_DOUBLE_EQ(state.bytes_per_s, 96);
}

// A slot of 1 s: the strong codec's 50 bytes fit always, the mild one's 100 at 100 bytes/s; to come
// back to it they must fit with a fifth to spare, at 120.
TEST(Bandwidth, ComingBackTakesAFifthToSpareAndFiftySteps) {
  const BandwidthSpec spec = {.codecs = {{"mild", 100}, {"strong", 50}}, .slot_s = 1};
  const auto at = [&](size_t current, int64_t since, int64_t step, double bandwidth) {
    return AdaptToBandwidth(spec,
                            {.bytes_per_s = bandwidth, .current = current, .since_step = since},
                            step, bandwidth, nullptr)
        .current;
  };
  EXPECT_EQ(at(0, 0, 50, 100), 0u);
  EXPECT_EQ(at(0, 0, 50, 99.999), 1u);
  EXPECT_EQ(at(1, 0, 50, 120.001), 0u);
  EXPECT_EQ(at(1, 0, 50, 119.999), 1u);
  EXPECT_EQ(at(0, 7, 56, 99), 0u) << "49 steps since the last switch";
  EXPECT_EQ(at(0, 7, 57, 99), 1u);
}

TEST(Accuracy, ANewCostCountsThreeTenthsAndTheEndsOfTheBandChangeNothing) {
  const AccuracySpec spec = {.codecs = {"a", "b", "c"}, .loss_budget = 0.5};
  AccuracyState state = AdaptToAccuracy(spec, {.current = 1}, 1, 2.25, 2, nullptr);
  EXPECT_EQ(state.loss_cost, 0.25);
  state = AdaptToAccuracy(spec, state, 2, 2.5, 2, nullptr);
  EXPECT_DOUBLE_EQ(state.loss_cost, 0.325);  // 0.25 + 0.3 x 0.25
  const auto at = [&](double cost) {
    return AdaptToAccuracy(spec, {.current = 1}, 1, cost, 0, nullptr).current;
  };
  EXPECT_EQ(at(0.5), 1u);
  EXPECT_EQ(at(0.5000001), 0u);
  EXPECT_EQ(at(0.125), 1u);
  EXPECT_EQ(at(0.1249999), 2u);
}

}  // namespace
}  // namespace longhaul
