// What `longhaul price` evaluates, by hand.
#include "experiments/price/price_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(PricePlan, ArmsAreEachBoundaryWhereACutMayLieAndEachWayToCut) {
  PriceRequest request{.codecs = {"a", "b"},
                       .cuts = {{2}, {1, 2, 3}},
                       .blocks = 5,
                       .rows = 5,
                       .context = 8,
                       .allowed_nat = {0.3},
                       .move = 1};
  // Nothing, three boundaries of two codecs, and S = 4 of two: S = 2 is block 2 alone.
  EXPECT_EQ(ArmsOf(request).all().size(), 1U + 6U + 2U);
  request.budget_nat = 0.8;  // a cut may move to block 4
  EXPECT_EQ(ArmsOf(request).all().size(), 1U + 8U + 2U);
}

}  // namespace
}  // namespace longhaul
