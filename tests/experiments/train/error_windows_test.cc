// Where in a training errors are looked at, and what is said of them.
#include "experiments/train/error_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

using Tuple = std::tuple<int, int64_t, int64_t>;

std::vector<Tuple> Tuples(int64_t steps) {
  std::vector<Tuple> tuples;
  for (const ErrorWindow& w : ErrorWindows(steps)) tuples.emplace_back(w.percent, w.first, w.last);
  return tuples;
}

TEST(ErrorWindows, AreATwentiethOfTheStepsAtTheBeginningAroundTenAndFiftyPercentAndAtTheEnd) {
  EXPECT_THAT(Tuples(200), ElementsAre(Tuple{0, 1, 10}, Tuple{10, 15, 24}, Tuple{50, 95, 104},
                                       Tuple{100, 191, 200}));
}

TEST(ErrorWindows, OfAShortTrainingHoldAStepEach) {
  EXPECT_THAT(Tuples(1),
              ElementsAre(Tuple{0, 1, 1}, Tuple{10, 1, 1}, Tuple{50, 1, 1}, Tuple{100, 1, 1}));
  EXPECT_THAT(Tuples(6),
              ElementsAre(Tuple{0, 1, 1}, Tuple{10, 1, 1}, Tuple{50, 3, 3}, Tuple{100, 6, 6}));
}

TEST(WindowedErrors, SumUpEachCrossingOfAWindowOnceWhenItEnds) {
  WindowedErrors errors(200);
  EXPECT_THAT(errors.Close(9), IsEmpty());
  // 20 samples 1 .. 20, not in order: 19 of 20 are 95 %.
  for (int i = 0; i < 20; ++i) errors.Add(1 + i % 10, {0, 1}, 1 + 7 * i % 20);
  errors.Add(10, {1, 0}, 5);
  errors.Add(11, {0, 1}, 1000);  // between windows
  const std::vector<ErrorSummary> closed = errors.Close(10);
  ASSERT_THAT(closed, SizeIs(2));
  EXPECT_EQ(closed[0].crossing, (ErrorCrossing{0, 1}));
  EXPECT_EQ(closed[0].window.percent, 0);
  EXPECT_EQ(closed[0].samples, 20);
  EXPECT_EQ(closed[0].mean, 10.5);
  EXPECT_EQ(closed[0].p95, 19);
  EXPECT_EQ(closed[1].crossing, (ErrorCrossing{1, 0}));
  EXPECT_EQ(closed[1].p95, 5);
  EXPECT_THAT(errors.Close(10), IsEmpty());
}

TEST(WindowedErrors, WithoutASampleThereIsNothingToSay) {
  WindowedErrors errors(200);
  errors.Add(1, {0, 1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(errors.Close(200), IsEmpty());
}

}  // namespace
}  // namespace longhaul
