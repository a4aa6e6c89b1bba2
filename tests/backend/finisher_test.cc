#include "plugin/backend/finisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <set>
#include <thread>
#include <vector>

namespace longhaul {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kLong{30};

TEST(Finisher, TasksOfALaneRunOneAfterAnotherInOrder) {
  Finisher finisher;
  std::vector<int> order;
  std::promise<void> last;
  for (int i = 0; i < 1000; ++i) {
    finisher.Post(0, [&, i] {
      order.push_back(i);
      if (i == 999) last.set_value();
    });
  }
  ASSERT_EQ(last.get_future().wait_for(kLong), std::future_status::ready);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Finisher, ACallbackMayWaitForWhatItStartsWithoutLosingItsTurn) {
  Finisher finisher;
  EXPECT_EQ(Finisher::LaneHere(), 0);
  std::promise<void> deepest, second;
  std::vector<int> order;
  const auto begun = steady_clock::now();
  finisher.Post(0, [&] {
    const int lane = Finisher::LaneHere();
    std::promise<void> inner;
    finisher.Post(lane, [&, lane] {
      std::promise<void> innermost;
      finisher.Post(Finisher::LaneHere(), [&] {
        EXPECT_EQ(Finisher::LaneHere(), lane + 2);
        innermost.set_value();
      });
      innermost.get_future().wait();
      inner.set_value();
    });
    inner.get_future().wait();
    order.push_back(1);
    deepest.set_value();
  });
  finisher.Post(0, [&] {
    order.push_back(2);
    second.set_value();
  });
  ASSERT_EQ(second.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
  EXPECT_LT(steady_clock::now() - begun, Finisher::kPatience) << "nobody waited for a turn";
}

TEST(Finisher, CallbacksThatWaitForLaterOnesAreReachedAllTheSame) {
  Finisher finisher;
  constexpr int kBlocked = 3;
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  std::promise<void> done[kBlocked];
  for (std::promise<void>& each : done) {
    finisher.Post(0, [&each, gate] {
      gate.wait();
      each.set_value();
    });
  }
  finisher.Post(0, [&] { open.set_value(); });
  for (std::promise<void>& each : done) {
    ASSERT_EQ(each.get_future().wait_for(kLong), std::future_status::ready);
  }
  std::promise<void> after;  // the lane is whole again
  finisher.Post(0, [&] { after.set_value(); });
  EXPECT_EQ(after.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(Finisher, CopiesDoNotWaitForCallbacks) {
  Finisher finisher;
  std::promise<void> copied;
  std::promise<bool> outcome;
  finisher.Post(0, [&] {
    outcome.set_value(copied.get_future().wait_for(kLong) == std::future_status::ready);
  });
  finisher.PostCopy([&] { copied.set_value(); });
  EXPECT_TRUE(outcome.get_future().get());
}

TEST(Finisher, WhatWasPostedStillRunsAfterItsEnd) {
  std::promise<void> open, done;
  {
    Finisher finisher;
    finisher.Post(0, [gate = open.get_future().share()] { gate.wait(); });
    finisher.Post(0, [&] { done.set_value(); });
  }
  open.set_value();
  EXPECT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
}

}  // namespace
}  // namespace longhaul
