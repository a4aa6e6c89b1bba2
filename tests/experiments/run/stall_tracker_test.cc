// Who stood still, on a clock of the test's own.
#include "experiments/run/stall_tracker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace longhaul {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(500);

absl::Duration Lasted(const StallTracker& watch) {
  const auto longest = watch.Longest();
  return longest ? longest->lasted : absl::ZeroDuration();
}

TEST(StallTracker, CountsFromTheFirstLookThatSawItStill) {
  StallTracker watch(kInterval);
  absl::Duration now = absl::Seconds(100);
  for (int look = 0; look <= 6; ++look, now += kInterval) {
    watch.Look(now);
    watch.Saw(7, look >= 2);
    EXPECT_EQ(watch.Longest().has_value(), look >= 2);
  }
  ASSERT_TRUE(watch.Longest().has_value());
  EXPECT_EQ(watch.Longest()->who, 7);
  EXPECT_EQ(Lasted(watch), absl::Seconds(2));
}

TEST(StallTracker, WhoMovesOnceStartsAnew) {
  StallTracker watch(kInterval);
  absl::Duration now;
  for (const bool still : {true, true, false, true, true}) {
    watch.Look(now += kInterval);
    watch.Saw(1, still);
  }
  EXPECT_EQ(Lasted(watch), kInterval);
}

TEST(StallTracker, TheFirstToStopIsNamed) {
  StallTracker watch(kInterval);
  absl::Duration now;
  for (int look = 0; look < 6; ++look) {
    watch.Look(now += kInterval);
    watch.Saw(1, look >= 3);
    watch.Saw(2, look >= 1);
    watch.Saw(3, look >= 5);
  }
  EXPECT_EQ(watch.Longest()->who, 2);
}

TEST(StallTracker, WhoIsGoneIsForgotten) {
  StallTracker watch(kInterval);
  watch.Look(absl::Seconds(1));
  watch.Saw(1, true);
  watch.Look(absl::Seconds(1.5));
  EXPECT_FALSE(watch.Longest().has_value());
  watch.Look(absl::Seconds(2));
  watch.Saw(1, true);  // another process with its number
  EXPECT_EQ(Lasted(watch), absl::ZeroDuration());
}

// Ctrl-Z stops the watcher too: what it missed is nobody's standstill.
TEST(StallTracker, BlamesNobodyForTheTimeThatItMissed) {
  StallTracker watch(kInterval);
  watch.Look(absl::Seconds(10));
  watch.Saw(1, true);
  watch.Look(absl::Seconds(100));
  watch.Saw(1, true);
  EXPECT_EQ(Lasted(watch), kInterval);
  watch.Look(absl::Seconds(100.9));  // late, as a busy machine is: counted
  watch.Saw(1, true);
  EXPECT_EQ(Lasted(watch), kInterval + absl::Seconds(0.9));
}

// A look that is a whole interval late is that of a busy machine; later than that the watcher stood
// still itself, and all that it missed is taken off.
TEST(StallTracker, AWholeIntervalLateIsStillCounted) {
  const auto lasted = [](absl::Duration until_next) {
    StallTracker watch(kInterval);
    for (const absl::Duration now : {absl::Seconds(10), absl::Seconds(10) + until_next}) {
      watch.Look(now);
      watch.Saw(1, true);
    }
    return Lasted(watch);
  };
  EXPECT_EQ(lasted(2 * kInterval), 2 * kInterval);
  EXPECT_EQ(lasted(2 * kInterval + absl::Nanoseconds(1)), kInterval);
  EXPECT_EQ(lasted(5 * kInterval), kInterval);
}

TEST(LookInterval, IsAnEighthOfTheDeadlineWithinLimits) {
  EXPECT_EQ(LookInterval(absl::Seconds(4)), absl::Milliseconds(500));
  EXPECT_EQ(LookInterval(absl::Seconds(30)), absl::Seconds(1));
  EXPECT_EQ(LookInterval(absl::Milliseconds(1)), absl::Milliseconds(50));
}

TEST(StateLetter, IsBehindTheNameWhateverThatHolds) {
  EXPECT_EQ(StateLetter("12 (a) S (x) T 1 2"), 'T');
  EXPECT_EQ(StateLetter("12 (longhaul) S 1 2"), 'S');
  EXPECT_EQ(StateLetter(""), std::nullopt);
  EXPECT_TRUE(StandsStill('T') && StandsStill('t'));
  for (const char moves : {'R', 'S', 'D', 'Z', 'I', 'X'}) EXPECT_FALSE(StandsStill(moves)) << moves;
}

// A chain as a lab's: keeper, first process, links, worker. Each dies with the one before it.
TEST(LabMonitor, NamesAStoppedProcessWithItsRank) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  const pid_t keeper = fork();
  if (keeper == 0) {
    for (int generation = 0; generation < 3; ++generation) {
      if (fork() != 0) {
        pause();
        _exit(0);
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    const pid_t self = getpid();
    (void)!write(pids[1], &self, sizeof self);
    const char* argv[] = {"/bin/sleep", "60", nullptr};
    const char* environment[] = {"A_RANK=9", "RANK=3", nullptr};
    execve(argv[0], const_cast<char**>(argv), const_cast<char**>(environment));
    _exit(1);
  }
  pid_t worker = -1;
  ASSERT_EQ(read(pids[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  usleep(100'000);  // its exec
  LabMonitor watch(keeper, LabMonitor::Kind::kLab, kInterval);
  EXPECT_FALSE(watch.Look(absl::Seconds(1)).has_value());
  kill(worker, SIGSTOP);
  usleep(50'000);
  watch.Look(absl::Seconds(1.5));
  const auto found = watch.Look(absl::Seconds(2));
  kill(keeper, SIGKILL);
  waitpid(keeper, nullptr, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->pid, worker);
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->who, "");
  EXPECT_EQ(found->state, 'T');
  EXPECT_EQ(found->lasted, kInterval);
}

}  // namespace
}  // namespace longhaul
