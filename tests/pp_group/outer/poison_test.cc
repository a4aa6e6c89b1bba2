// Which outer deltas are left out of an average.
#include "pp_group/outer/poison.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNotANumber = std::numeric_limits<double>::quiet_NaN();

std::vector<bool> Of(std::vector<double> norms) { return PoisonedMembers(norms); }

TEST(Poison, WhatIsNotFiniteIsLeftOut) {
  EXPECT_THAT(Of({1, kNotANumber}), ElementsAre(false, true));
  EXPECT_THAT(Of({kInf, 1, 1.2}), ElementsAre(true, false, false));
  EXPECT_THAT(Of({kNotANumber, kInf}), ElementsAre(true, true));
  EXPECT_THAT(Of({kNotANumber, 1e30}), ElementsAre(true, false))
      << "nobody is left to judge the other";
}

TEST(Poison, OfFewGroupsTheRatioToTheOthersMedianDecides) {
  EXPECT_THAT(Of({1, 9.9}), ElementsAre(false, false));
  EXPECT_THAT(Of({1, 10.1}), ElementsAre(false, true));
  EXPECT_THAT(Of({1, 1e6, 2}), ElementsAre(false, true, false));
  EXPECT_THAT(Of({1, 1e6, 2e6}), ElementsAre(false, false, false)) << "whose median is it?";
  EXPECT_THAT(Of({1, 1, 11, 1}), ElementsAre(false, false, true, false));
  EXPECT_THAT(Of({1e-9, 1, 1}), Each(false)) << "a small one pulls nobody away";
}

TEST(Poison, OfManyTheSpreadMustBeExceededToo) {
  EXPECT_THAT(Of({1, 1.1, 0.9, 1, 10.5}), ElementsAre(false, false, false, false, true));
  // ln: -3, -1.5, 0, 1.5, 3.5: median 0, MAD 1.5, limit exp(6 x 1.4826 x 1.5) = 6e5.
  EXPECT_THAT(Of({0.0498, 0.223, 1, 4.48, 33.1}), Each(false));
  EXPECT_THAT(Of({0.0498, 0.223, 1, 4.48, 6.0e5}), Each(false));
  EXPECT_THAT(Of({0.0498, 0.223, 1, 4.48, 6.4e5}), ElementsAre(false, false, false, false, true));
}

TEST(Poison, NothingMovedIsNoPoison) {
  EXPECT_THAT(Of({0, 0, 0}), Each(false));
  EXPECT_THAT(Of({0, 0, 3}), Each(false)) << "a median of 0 judges nobody";
  EXPECT_THAT(Of({5}), ElementsAre(false));
  EXPECT_THAT(Of({}), ElementsAre());
}

TEST(NormsOverStages, AddTheSquaresOfAllStagesAndTakeTheRoot) {
  EXPECT_THAT(NormsOverStages(std::vector<std::vector<double>>{{9, 25, 0}}), ElementsAre(3, 5, 0));
  EXPECT_THAT(NormsOverStages(std::vector<std::vector<double>>{{9, 1, 4}, {16, 1, 32}, {0, 2, 0}}),
              ElementsAre(5, 2, 6));
  const std::vector<double> broken =
      NormsOverStages(std::vector<std::vector<double>>{{9, 1}, {16, kInf}});
  EXPECT_THAT(broken, ElementsAre(5, kInf)) << "one stage of it is enough";
}

// Four stages of 6 are a delta of 12, more than ten times the others', whose one stage moved by 1: the
// largest stage by itself would be none.
TEST(NormsOverStages, WhatNoStageMakesAbsurdAloneAllOfThemDo) {
  const std::vector<std::vector<double>> squared = {{1, 1, 36}, {0, 0, 36}, {0, 0, 36}, {0, 0, 36}};
  EXPECT_THAT(PoisonedMembers(NormsOverStages(squared)), ElementsAre(false, false, true));
  EXPECT_THAT(Of({1, 1, 6}), Each(false));
}

TEST(Poison, TenTimesTheMedianItselfIsNotAbsurd) {
  EXPECT_THAT(Of({1, 10}), Each(false));
  EXPECT_THAT(Of({1, std::nextafter(10, 11)}), ElementsAre(false, true));
  EXPECT_THAT(Of({1, 3, 20}), Each(false)) << "of two others the median is their mean";
  EXPECT_THAT(Of({1, 3, 20.01}), ElementsAre(false, false, true));
}

}  // namespace
}  // namespace longhaul
