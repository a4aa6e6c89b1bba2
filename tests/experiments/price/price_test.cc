// The pure half of `longhaul price`: plans, estimators over rows, choices; all figures by hand.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/price/price_estimates.h"
#include "experiments/price/price_findings.h"
#include "experiments/price/price_plan.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PricePlan, EqualCutsAreNested) {
  EXPECT_THAT(EqualCuts(30, 2), ElementsAre(15));
  EXPECT_THAT(EqualCuts(30, 4), ElementsAre(7, 15, 22));
  EXPECT_THAT(EqualCuts(30, 8), ElementsAre(3, 7, 11, 15, 18, 22, 26));
  EXPECT_THAT(EqualCuts(4, 4), ElementsAre(1, 2, 3));
}

TEST(PricePlan, CutsAreAscendingBlocksOfTheModel) {
  EXPECT_THAT(*ParseCuts("7,15,22", 30), ElementsAre(7, 15, 22));
  EXPECT_THAT(*ParseCuts("29", 30), ElementsAre(29));
  for (const char* bad : {"", "0", "30", "7,7", "9,7", "7,", ",7", "7;8", "7,x", "-1", "7 8"}) {
    const absl::Status status = ParseCuts(bad, 30).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("from 1 to 29"));
  }
}

TEST(PricePlan, ATreeComputesWhatArmsShareOnce) {
  // Of 10 blocks: uncompressed; 5 alone; 5 and 8; 8 alone with another codec.
  PriceArms arms;
  EXPECT_EQ(arms.Add({}), 0U);
  EXPECT_EQ(arms.Add({{5, 0}}), 1U);
  EXPECT_EQ(arms.Add({{5, 0}, {8, 0}}), 2U);
  EXPECT_EQ(arms.Add({{8, 1}}), 3U);
  EXPECT_EQ(arms.Add({{5, 0}}), 1U) << "is there already";
  const PassNode root = PassTree(arms.all());
  ASSERT_EQ(root.children.size(), 2U);
  EXPECT_EQ(root.children[0].crossing.block, 5);
  ASSERT_EQ(root.children[0].children.size(), 1U);
  EXPECT_EQ(root.children[0].children[0].arm, 2U);
  // 10 uncompressed, 5 behind block 5, 2 behind 5 and 8, 2 behind 8.
  EXPECT_EQ(WorkOf(root, 10), (PassWork{.blocks = 19, .heads = 4}));
}

TEST(PricePlan, APrefixThatNoArmEndsInGoesNoFurtherThanItsBranches) {
  const std::vector<PriceArm> arms = {{{2, 0}, {6, 0}}, {{2, 0}, {7, 0}}};
  // The root to block 2; behind 2 to block 7; behind 6 and behind 7 to the end.
  EXPECT_EQ(WorkOf(PassTree(arms), 10), (PassWork{.blocks = 2 + 5 + 4 + 3, .heads = 2}));
}

TEST(PriceEstimates, DeltaIsThePairedMeanWithItsTInterval) {
  const RowValues exact = {3.0, 2.0, 4.0, 5.0}, arm = {3.1, 2.3, 4.1, 5.3};
  // Differences 0.1, 0.3, 0.1, 0.3: mean 0.2, sd 0.11547, t(0.975, 3) = 3.182446.
  const Measured delta = DeltaOf(arm, exact);
  EXPECT_NEAR(delta.value, 0.2, 1e-12);
  ASSERT_TRUE(delta.interval);
  const double half = 3.182446 * std::sqrt(0.04 / 3) / 2;
  EXPECT_NEAR(delta.interval->low, 0.2 - half, 1e-6);
  EXPECT_NEAR(delta.interval->high, 0.2 + half, 1e-6);
}

TEST(PriceEstimates, EndsBeyondWhatCanBeAreCut) {
  // Mean 0.5, sd 0.5, t(0.975, 2) = 4.302653: 0.5 +- 1.242.
  const Measured cut = MeanWithin(std::vector<double>{0, 0.5, 1}, 0, 1);
  EXPECT_EQ(cut.value, 0.5);
  EXPECT_EQ(cut.interval->low, 0);
  EXPECT_EQ(cut.interval->high, 1);
  EXPECT_NEAR(MeanWithin(std::vector<double>{0, 0.5, 1}, 0, 10).interval->high, 1.742, 1e-3);
}

TEST(PriceEstimates, InteractionIsZeroWhereBoundariesAddUp) {
  const RowValues exact = {3, 2, 4, 5, 1};
  const std::vector<RowValues> alone = {{3.25, 2.5, 4.25, 5.5, 1.25}, {3.5, 2.25, 4.5, 5.25, 1.5}};
  RowValues all = {3.75, 2.75, 4.75, 5.75, 1.75};  // binary fractions: sums are exact
  const Measured none = Interaction(all, alone, exact);
  EXPECT_EQ(none.value, 0);
  EXPECT_EQ(none.interval->low, 0);
  EXPECT_EQ(none.interval->high, 0);
  for (double& loss : all) loss -= 0.5;
  EXPECT_EQ(Interaction(all, alone, exact).value, -0.5) << "together less than added";
}

TEST(PriceEstimates, WorstIsComparedWithTheMedianOneAtTheLevelOfAllPairs) {
  // Means 0.2, 0.5, 0.1, 0.3: the lower middle one of four is 0.2.
  const std::vector<RowValues> alone = {
      {0.1, 0.3, 0.2}, {0.5, 0.4, 0.6}, {0.1, 0.1, 0.1}, {0.3, 0.3, 0.3}};
  const std::optional<WorstBoundary> worst = FindWorst(alone);
  ASSERT_TRUE(worst);
  EXPECT_EQ(worst->worst, 1U);
  EXPECT_EQ(worst->median, 0U);
  EXPECT_EQ(worst->pairs, 6U);
  EXPECT_NEAR(worst->more.value, 0.3, 1e-12);
  // Differences 0.4, 0.1, 0.4: sd 0.173205; level 1 - 0.05 / 6, t(1 - 0.025 / 6, 2) = 10.886.
  EXPECT_NEAR(worst->more.interval->level, 1 - 0.05 / 6, 1e-12);
  EXPECT_NEAR(worst->more.interval->high - 0.3, 10.886 * 0.173205 / std::sqrt(3.0), 2e-3);
  EXPECT_FALSE(FindWorst(std::vector<RowValues>{{1, 2}}));
}

PricedCodec Codec(const char* name, double bits, double value, double half) {
  return {
      name, bits, {.value = value, .interval = Interval{value - half, value + half, 0.95, "t"}}};
}

TEST(PriceEstimates, BitsAreShownByWholeIntervals) {
  const std::vector<PricedCodec> codecs = {
      Codec("eight", 8.25, 0.0001, 0.0002), Codec("six", 6.5, 0.004, 0.002),
      Codec("four", 4.25, 0.009, 0.002), Codec("three", 3.5, 0.05, 0.01),
      Codec("two", 2.5, 0.4, 0.1)};
  const AllowedBits hundredth = BitsFor(0.01, codecs);
  EXPECT_EQ(hundredth.enough, 1U) << "four bits' interval holds 0.01: nothing is shown of them";
  EXPECT_EQ(hundredth.too_few, 3U);
  EXPECT_EQ(BitsFor(1e-5, codecs).enough, std::nullopt);
  EXPECT_EQ(BitsFor(1e-5, codecs).too_few, 1U);
  EXPECT_EQ(BitsFor(1, codecs).enough, 4U);
  EXPECT_EQ(BitsFor(1, codecs).too_few, std::nullopt);
}

TEST(PriceEstimates, NeighboursThatAreAlikeAreFound) {
  EXPECT_NEAR(NeighbourCorrelation(std::vector<double>{1, 1, 1, -1, -1, -1}), 3.0 / 6, 1e-12);
  EXPECT_NEAR(NeighbourCorrelation(std::vector<double>{1, -1, 1, -1}), -3.0 / 4, 1e-12);
  EXPECT_EQ(NeighbourCorrelation(std::vector<double>{2, 2, 2}), 0);
  EXPECT_NEAR(NeighbourBound(100, 1), 0.195996, 1e-6);
  EXPECT_NEAR(NeighbourBound(100, 5), 0.257583, 1e-6);  // normal quantile of 0.995
}

// Codecs: 0 of eight bits, 1 of four, 2 of two.
std::vector<SinglePrice> Prices() {
  return {{{2, 0}, 0.00, 8}, {{2, 1}, 0.01, 4}, {{2, 2}, 0.10, 2},
          {{5, 0}, 0.00, 8}, {{5, 1}, 0.05, 4}, {{5, 2}, 0.50, 2},
          {{6, 0}, 0.00, 8}, {{6, 1}, 0.02, 4}, {{6, 2}, 0.06, 2}};
}
constexpr CutRange kAtTwo = {2, 2}, kFiveOrSix = {5, 6};

TEST(PriceChoice, TakesTheFewestBitsThatFitAndOfThoseTheCheapest) {
  const auto prices = Prices();
  const std::vector<CutRange> ranges = {kAtTwo, kFiveOrSix};
  // 4 + 2 bits cost 0.07 at blocks 2 and 6 (2 + 4 bits cost 0.12), 2 + 2 bits 0.16.
  const auto choice = ChooseBoundaries(prices, ranges, 0.08);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_THAT(choice->arm, ElementsAre(PricedCrossing{2, 1}, PricedCrossing{6, 2}));
  EXPECT_NEAR(choice->nat, 0.07, 1e-12);
  EXPECT_NEAR(choice->bits, 6, 1e-12);
  EXPECT_THAT(ChooseBoundaries(prices, ranges, 0.16)->arm,
              ElementsAre(PricedCrossing{2, 2}, PricedCrossing{6, 2}));
  // 8 bits in all: 4 + 4 at 2 and 6 for 0.03.
  EXPECT_THAT(ChooseBoundaries(prices, ranges, 0.03)->arm,
              ElementsAre(PricedCrossing{2, 1}, PricedCrossing{6, 1}));
  EXPECT_THAT(ChooseBoundaries(prices, ranges, 0)->arm,
              ElementsAre(PricedCrossing{2, 0}, PricedCrossing{5, 0}));
}

TEST(PriceChoice, BoundariesDoNotMeet) {
  std::vector<SinglePrice> prices = Prices();
  const std::vector<CutRange> ranges = {kFiveOrSix, kFiveOrSix};
  const auto choice = ChooseBoundaries(prices, ranges, 0.07);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_THAT(choice->arm, ElementsAre(PricedCrossing{5, 1}, PricedCrossing{6, 1}));
  const absl::Status none =
      ChooseBoundaries(prices, std::vector<CutRange>{{6, 6}, {6, 6}}, 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
}

TEST(PriceChoice, ABudgetThatNothingMeetsSaysTheLeastThereIs) {
  std::vector<SinglePrice> prices = {{{2, 0}, 0.03, 8}, {{2, 1}, 0.1, 4}};
  const absl::Status none = ChooseBoundaries(prices, std::vector<CutRange>{kAtTwo}, 0.02).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("the least is 0.03"));
}

TEST(PriceChoice, CutsMoveWithinTheModel) {
  const std::vector<CutRange> ranges = RangesAround(std::vector<int64_t>{1, 4, 7}, 2, 8);
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0].least, 1);
  EXPECT_EQ(ranges[0].most, 3);
  EXPECT_EQ(ranges[2].most, 7);
  EXPECT_THAT(BlocksOf(ranges), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(PriceChoice, VerdictIsOfTheWholeInterval) {
  EXPECT_EQ(VerdictOf(0.001, 0.009, 0.01), BudgetVerdict::kHolds);
  EXPECT_EQ(VerdictOf(0.011, 0.02, 0.01), BudgetVerdict::kExceeds);
  EXPECT_EQ(VerdictOf(0.005, 0.02, 0.01), BudgetVerdict::kNotShown);
}

// Two codecs on a model of four blocks in two and four stages, losses written down.
TEST(PriceFindings, AreThoseOfTheRows) {
  const PriceRequest request{.codecs = {"a", "b"},
                             .cuts = {{2}, {1, 2, 3}},
                             .blocks = 4,
                             .rows = 5,
                             .context = 8,
                             .allowed_nat = {0.3},
                             .budget_nat = 0.8,
                             .move = 0};
  PriceSeen seen{.arms = ArmsOf(request)};
  // Nothing, three boundaries of two codecs, and S = 4 of two: S = 2 is block 2 alone.
  ASSERT_EQ(seen.arms.all().size(), 1U + 6U + 2U);
  const RowValues exact = {2, 3, 2, 3, 2};
  const double noise[] = {0, 0.125, 0, -0.125, 0};  // of every difference; mean 0
  for (const PriceArm& arm : seen.arms.all()) {
    // Codec a costs 0.25 a boundary, b 0.5; at block 3 both cost 0.25 more; they add up.
    double cost = 0;
    for (const PricedCrossing& c : arm) cost += 0.25 * (1 + c.codec) + (c.block == 3 ? 0.25 : 0);
    RowValues& losses = seen.losses.emplace_back(exact);
    for (size_t i = 0; i < exact.size() && !arm.empty(); ++i) losses[i] += cost + noise[i];
    for (const PricedCrossing& c : arm) {
      seen.forward[c] = {.bits = c.codec == 0 ? 800.0 : 400.0, .elements = 100};
    }
  }
  seen.windows = {4, 0, 3, 1, 2};
  const PriceFindings found = FindPrices(request, seen);
  EXPECT_NEAR(found.exact.value, 2.4, 1e-12);
  ASSERT_EQ(found.depths.size(), 4U);
  const DepthPrice& deep = found.depths[2];  // S = 4, codec a
  EXPECT_EQ(deep.cuts, 1U);
  EXPECT_EQ(deep.codec, 0U);
  EXPECT_NEAR(deep.delta.value, 1.0, 1e-12);
  EXPECT_NEAR(deep.per_crossing.value, 1.0 / 3, 1e-12);
  EXPECT_NEAR(deep.bits, 8, 1e-12);
  EXPECT_NEAR(deep.sum_alone.value, 1.0, 1e-12);
  ASSERT_TRUE(deep.interaction);
  EXPECT_NEAR(deep.interaction->value, 0, 1e-12);
  ASSERT_TRUE(deep.worst);
  EXPECT_EQ(request.cuts[1][deep.worst->worst], 3);
  EXPECT_NEAR(deep.worst->more.value, 0.25, 1e-12);
  EXPECT_FALSE(found.depths[0].interaction) << "of one boundary there is none";
  EXPECT_FALSE(found.depths[0].worst);
  // In the order of the text the noise is 0.125, -0.125, 0, 0, 0.
  EXPECT_NEAR(deep.neighbour_correlation, -0.5, 1e-12);
  EXPECT_NEAR(found.boundaries[5].delta.value, 0.75, 1e-12);  // block 3, codec b

  // t(0.975, 4) = 2.776 times sd 0.0884 / sqrt 5: intervals reach 0.11 to either side.
  ASSERT_EQ(found.allowed.size(), 2U);
  EXPECT_EQ(found.allowed[0].enough, std::nullopt) << "0.25 + 0.11 is above 0.3";
  EXPECT_EQ(found.allowed[0].too_few, 1U);
  EXPECT_EQ(found.allowed[1].too_few, 0U) << "of both codecs that of more bits";

  // S = 2: b alone. S = 4: the least is 1.0 nat.
  ASSERT_EQ(found.choices.size(), 2U);
  EXPECT_THAT(found.choices[0].choice.arm, ElementsAre(PricedCrossing{2, 1}));
  EXPECT_NEAR(found.choices[0].predicted.value, 0.5, 1e-12);
  EXPECT_THAT(found.choices[1].none, HasSubstr("the least is 1"));
}

}  // namespace
}  // namespace longhaul
