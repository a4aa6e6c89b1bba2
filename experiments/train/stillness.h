#pragma once

#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// A worker that did not run for so long has no times to show, as an emulator that stood still has
// none: a step must have seen it.
constexpr double kWorkerStoodStillS = 0.5;

// Notices when this process does not run: a thread wakes ten times a second and sees how late it
// is. Stopped, frozen or swapped out, all its threads are. A core that is merely busy gives it its
// turn soon enough.
class StillnessMeter {
 public:
  StillnessMeter();
  ~StillnessMeter();
  StillnessMeter(const StillnessMeter&) = delete;
  StillnessMeter& operator=(const StillnessMeter&) = delete;

  void Restart();  // forgets what it has seen
  // The longest time since Restart() that the thread did not run though it was to.
  absl::Duration Longest();

 private:
  void Main();
  void Woke(absl::Duration now);  // under mu_

  Fd stop_;
  std::mutex mu_;
  absl::Duration due_, longest_;
  std::thread thread_;
};

}  // namespace longhaul
