// Whether a process notices that it did not run.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "experiments/train/stall_detector.h"

namespace longhaul {
namespace {

// Exit status of a process that lets `body` run beside its meter: how long it stood still, in units
// of 0.1 s.
int TenthsStill(void (*body)(StallDetector&)) {
  const pid_t child = fork();
  if (child == 0) {
    StallDetector meter;
    meter.Restart();
    body(meter);
    _exit(static_cast<int>(meter.Longest() / absl::Milliseconds(100)));
  }
  int status = 0;
  while (waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) {
    absl::SleepFor(absl::Seconds(1));
    kill(child, SIGCONT);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StallDetector, AStoppedProcessKnowsForHowLong) {
  const int tenths = TenthsStill([](StallDetector&) {
    raise(SIGSTOP);
    absl::SleepFor(absl::Milliseconds(300));  // its thread has woken since
  });
  EXPECT_GE(tenths, 8);
  EXPECT_LE(tenths, 30);
}

TEST(StallDetector, AskedAtOnceAfterTheStopItKnowsToo) {
  EXPECT_GE(TenthsStill([](StallDetector&) { raise(SIGSTOP); }), 8);
}

TEST(StallDetector, ABusyProcessDoesNotStandStill) {
  EXPECT_LE(TenthsStill([](StallDetector&) {
              const absl::Time end = absl::Now() + absl::Milliseconds(500);
              while (absl::Now() < end) {
              }
            }),
            3);
}

TEST(StallDetector, WhatWasBeforeARestartIsForgotten) {
  EXPECT_LE(TenthsStill([](StallDetector& meter) {
              raise(SIGSTOP);
              meter.Restart();
            }),
            3);
}

// Stopped for 0.4 s of every 0.5 s, as a machine does that is short of something: never for the 0.5 s
// that make a run invalid.
TEST(StallDetector, ManyShortStopsAddUp) {
  const pid_t child = fork();
  if (child == 0) {
    StallDetector meter;
    absl::SleepFor(absl::Seconds(3));
    const double share = meter.Disturbed().still;
    _exit(meter.Longest() >= absl::Seconds(2) ? 255 : static_cast<int>(100 * share));
  }
  for (int i = 0; i < 5; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    kill(child, SIGSTOP);
    absl::SleepFor(absl::Milliseconds(400));
    kill(child, SIGCONT);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_GE(WEXITSTATUS(status), 20);  // 2 s of 3, less what the timer was not due for
  EXPECT_LE(WEXITSTATUS(status), 95);
}

TEST(CoreWait, IsKnownAndGrows) {
  const auto before = WaitedForCores();
  if (!before) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_GE(*before, absl::ZeroDuration());
  EXPECT_GE(*WaitedForCores(), *before);
}

TEST(CoreWait, StolenIsTheEighthFigureOfAllEight) {
  const auto ticks = StolenIn("cpu  100 1 20 1000 3 4 5 67 8 9");
  ASSERT_TRUE(ticks.has_value());
  EXPECT_EQ(ticks->stolen, 67);
  EXPECT_EQ(ticks->all, 1200);
  EXPECT_FALSE(StolenIn("cpu0 1 2 3 4 5 6 7 8").has_value());
  EXPECT_FALSE(StolenIn("cpu 1 2 3").has_value());
  EXPECT_FALSE(StolenIn("").has_value());
}

}  // namespace
}  // namespace longhaul
