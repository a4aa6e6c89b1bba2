#pragma once

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace longhaul {

// Threads that take jobs step by step, in turns. They start when there is need of them and sleep
// when there is nothing to do. Thread safe.
class StepThreads {
 public:
  using Step = absl::AnyInvocable<bool()>;                // true: there is more
  using Refuse = absl::AnyInvocable<void(absl::Status)>;  // instead of the steps that are left

  explicit StepThreads(int most);
  // Steps that wait are still taken. Returns when all threads have ended; on one of them, at once:
  // so a job must own whatever it uses, since it may be at work when its StepThreads are gone.
  ~StepThreads();

  bool none() const { return most_ <= 0; }
  void Add(Step step, Refuse refuse);
  // Refuses what waits, with Cancelled; returns when no step is at work, but the caller's own.
  void Drain();

 private:
  class Queue;
  const int most_;
  const std::shared_ptr<Queue> queue_;  // shared with the threads, which may end last
};

}  // namespace longhaul
