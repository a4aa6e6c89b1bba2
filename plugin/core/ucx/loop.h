#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "plugin/core/clock.h"
#include "plugin/core/transport.h"

namespace longhaul {

// The waiting half of a progress thread: tasks from other threads, a timer, and file descriptors
// that wake it. Blocks in epoll; never polls. Post and Wake from any thread, the rest on one.
class WakeLoop {
 public:
  explicit WakeLoop(const Clock* clock);  // `clock` must outlive it
  ~WakeLoop();

  absl::Status Watch(int fd);  // wakes when readable; not owned

  bool Post(Task task);  // false once closed
  void Close();          // refuses more; what is queued still runs in RunTasks()
  void Wake();

  // Runs the tasks that are there; true when there were any.
  bool RunTasks();

  void WakeAt(absl::Duration when) { due_ = std::min(due_, when); }
  // True once when the time given to WakeAt has come; forgets it.
  bool TimerDue();

  // Blocks until something watched is readable, a task is posted, Wake() is called or the timer is
  // due. Returns at once when tasks wait already.
  void Sleep();

 private:
  const Clock* const clock_;
  int epoll_ = -1;
  int event_ = -1;
  absl::Duration due_ = absl::InfiniteDuration();
  std::mutex mu_;
  std::deque<Task> queue_;  // under mu_
  bool asleep_ = false;     // under mu_
  bool woken_ = false;      // under mu_: Wake() since the last Sleep()
  bool closed_ = false;     // under mu_
};

}  // namespace longhaul
