// Whether a process notices that it did not run.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "experiments/train/stillness.h"

namespace longhaul {
namespace {

// Exit status of a process that lets `body` run beside its meter: how long it stood still, in units
// of 0.1 s.
int TenthsStill(void (*body)(StillnessMeter&)) {
  const pid_t child = fork();
  if (child == 0) {
    StillnessMeter meter;
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

TEST(StillnessMeter, AStoppedProcessKnowsForHowLong) {
  const int tenths = TenthsStill([](StillnessMeter&) {
    raise(SIGSTOP);
    absl::SleepFor(absl::Milliseconds(300));  // its thread has woken since
  });
  EXPECT_GE(tenths, 8);
  EXPECT_LE(tenths, 30);
}

TEST(StillnessMeter, AskedAtOnceAfterTheStopItKnowsToo) {
  EXPECT_GE(TenthsStill([](StillnessMeter&) { raise(SIGSTOP); }), 8);
}

TEST(StillnessMeter, ABusyProcessDoesNotStandStill) {
  EXPECT_LE(TenthsStill([](StillnessMeter&) {
              const absl::Time end = absl::Now() + absl::Milliseconds(500);
              while (absl::Now() < end) {
              }
            }),
            3);
}

TEST(StillnessMeter, WhatWasBeforeARestartIsForgotten) {
  EXPECT_LE(TenthsStill([](StillnessMeter& meter) {
              raise(SIGSTOP);
              meter.Restart();
            }),
            3);
}

}  // namespace
}  // namespace longhaul
