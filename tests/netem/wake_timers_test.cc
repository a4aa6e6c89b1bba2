#include "netem/emulators/wake_timers.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <time.h>

namespace longhaul {
namespace {

constexpr int64_t kMs = 1'000'000;

int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

class WakeTimersTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(timers_.Open(epoll_.get(), 7).ok()); }
  // Sleeps; answers what it was woken for, nullopt when nothing woke it within 2 s.
  std::optional<int64_t> Wake() {
    epoll_event event;
    if (epoll_wait(epoll_.get(), &event, 1, 2000) != 1) return std::nullopt;
    EXPECT_EQ(event.data.u64, 7u);
    const int64_t now_ns = NowNs();
    const auto passed_ns = timers_.Passed(now_ns);
    if (passed_ns) {
      EXPECT_LE(*passed_ns, now_ns);
    }
    return passed_ns;
  }
  bool IsQuiet(int ms) {
    epoll_event event;
    return epoll_wait(epoll_.get(), &event, 1, ms) == 0;
  }

  Fd epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  WakeTimers timers_;
};

TEST_F(WakeTimersTest, WakesForTheFirstAndThenForTheSecond) {
  const int64_t start_ns = NowNs();
  ASSERT_TRUE(timers_.Set(start_ns + 20 * kMs, start_ns + 200 * kMs, 0).ok());
  EXPECT_EQ(Wake(), start_ns + 20 * kMs);
  EXPECT_EQ(Wake(), start_ns + 200 * kMs);
  EXPECT_TRUE(IsQuiet(50));
}

TEST_F(WakeTimersTest, WhatWasSecondServesAsFirst) {
  const int64_t start_ns = NowNs();
  ASSERT_TRUE(timers_.Set(start_ns + 20 * kMs, start_ns + 200 * kMs, 0).ok());
  EXPECT_EQ(Wake(), start_ns + 20 * kMs);
  // Wanted a little later by now: the timer that runs is near enough.
  ASSERT_TRUE(timers_.Set(start_ns + 201 * kMs, start_ns + 300 * kMs, 2 * kMs).ok());
  EXPECT_EQ(Wake(), start_ns + 200 * kMs);
  EXPECT_EQ(Wake(), start_ns + 300 * kMs);
}

TEST_F(WakeTimersTest, SomethingEarlierIsSetBesideWhatRuns) {
  const int64_t start_ns = NowNs();
  ASSERT_TRUE(timers_.Set(start_ns + 200 * kMs, start_ns + 400 * kMs, 0).ok());
  ASSERT_TRUE(timers_.Set(start_ns + 50 * kMs, start_ns + 200 * kMs, 0).ok());
  EXPECT_EQ(Wake(), start_ns + 50 * kMs);
  EXPECT_EQ(Wake(), start_ns + 200 * kMs);
  EXPECT_TRUE(IsQuiet(250));  // nobody waits for the third time any more
}

TEST_F(WakeTimersTest, TimeThatHasPassedWakesAtOnce) {
  const int64_t start_ns = NowNs();
  ASSERT_TRUE(timers_.Set(start_ns - kMs, std::nullopt, 0).ok());
  EXPECT_EQ(Wake(), start_ns - kMs);
}

}  // namespace
}  // namespace longhaul
