#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// How long this process' threads, those that still are, have been ready to run and waited for a
// core. nullopt: a kernel that does not tell (no /proc/self/task/*/schedstat).
std::optional<absl::Duration> WaitedForCores();

// Of all cores, since boot: what the host of a virtual machine took, and all there was; ticks.
struct StolenTicks {
  int64_t stolen = 0, all = 0;
};
// `stat`: /proc/stat. nullopt: not of its form.
std::optional<StolenTicks> StolenIn(const std::string& stat);
std::optional<StolenTicks> Stolen();

// A worker that did not run for so long has no times to show, as an emulator that stood still has
// none: a step must have seen it.
constexpr double kWorkerStoodStillS = 0.5;

// Below that, it is how punctual a timer is.
constexpr absl::Duration kNoticedStillness = absl::Milliseconds(20);

// Of the time since a Restart(), what was none of this process'. Above 1: several threads waited.
struct Disturbance {
  double still = 0;                 // did not run at all, each time for kNoticedStillness or longer
  std::optional<double> core_wait;  // threads that were ready waited for a core
  std::optional<double> stolen;     // of all cores: what the host of a virtual machine took
};

// Notices when this process does not run: a thread wakes ten times a second and sees how late it
// is. Stopped, frozen or swapped out, all its threads are. A core that is merely busy gives it its
// turn soon enough.
class StallDetector {
 public:
  StallDetector();
  ~StallDetector();
  StallDetector(const StallDetector&) = delete;
  StallDetector& operator=(const StallDetector&) = delete;

  void Restart();  // forgets what it has seen
  // The longest time since Restart() that the thread did not run though it was to.
  absl::Duration Longest();
  Disturbance Disturbed();  // since Restart()

 private:
  void Main();
  void Woke(absl::Duration now);  // under mu_

  Fd stop_;
  std::mutex mu_;
  absl::Duration begun_, due_, longest_, sum_;
  std::optional<absl::Duration> waited_at_begin_;
  std::optional<StolenTicks> stolen_at_begin_;
  std::thread thread_;
};

}  // namespace longhaul
