#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"
#include "plugin/core/transport.h"

namespace longhaul {

// Runs tasks one after another on whichever thread brings one while no other runs; that thread also
// runs what others add meanwhile. A task added from within a task runs after it. No thread of its
// own, no lock held while a task runs. Thread safe.
class InlineStrand {
 public:
  // False when stopped: the task is refused.
  bool Post(Task task);

  // Runs `now` at once if the strand is free. False: it is not, or it is stopped.
  bool TryRun(absl::FunctionRef<void()> now);

  // Runs `now` at once if the strand is free, else queues what `later` makes. False when stopped.
  bool RunOr(absl::FunctionRef<void()> now, absl::FunctionRef<Task()> later);

  bool OnStrand() const { return runner_.load() == std::this_thread::get_id(); }

  // Refuses later tasks. What is queued still runs; waits for it unless called from the strand.
  void Stop();

 private:
  void Drain();  // with the strand taken by this thread

  std::mutex mu_;
  std::condition_variable idle_;
  std::deque<Task> queue_;  // under mu_
  bool running_ = false;    // under mu_
  bool stopped_ = false;    // under mu_
  std::atomic<std::thread::id> runner_;
};

}  // namespace longhaul
