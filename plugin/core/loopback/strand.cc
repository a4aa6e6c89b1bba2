#include "plugin/core/loopback/strand.h"

#include <utility>

namespace longhaul {

bool InlineStrand::Post(Task task) {
  {
    const std::lock_guard lock(mu_);
    if (stopped_) return false;
    if (running_) {
      queue_.push_back(std::move(task));
      return true;
    }
    running_ = true;
  }
  runner_.store(std::this_thread::get_id());
  task();
  task = nullptr;  // its captures go before the next task runs
  Drain();
  return true;
}

bool InlineStrand::TryRun(absl::FunctionRef<void()> now) {
  {
    const std::lock_guard lock(mu_);
    if (stopped_ || running_) return false;
    running_ = true;
  }
  runner_.store(std::this_thread::get_id());
  now();
  Drain();
  return true;
}

bool InlineStrand::RunOr(absl::FunctionRef<void()> now, absl::FunctionRef<Task()> later) {
  {
    const std::lock_guard lock(mu_);
    if (stopped_) return false;
    if (running_) {
      queue_.push_back(later());
      return true;
    }
    running_ = true;
  }
  runner_.store(std::this_thread::get_id());
  now();
  Drain();
  return true;
}

void InlineStrand::Drain() {
  std::unique_lock lock(mu_);
  while (!queue_.empty()) {
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
  runner_.store(std::thread::id());
  running_ = false;
  idle_.notify_all();
}

void InlineStrand::Stop() {
  std::unique_lock lock(mu_);
  stopped_ = true;
  if (!OnStrand()) idle_.wait(lock, [this] { return !running_; });
}

}  // namespace longhaul
