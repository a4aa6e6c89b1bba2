#include "plugin/core/step_threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace longhaul {
namespace {

thread_local const void* at_work_for = nullptr;  // whose thread this is

}  // namespace

class StepThreads::Queue : public std::enable_shared_from_this<StepThreads::Queue> {
 public:
  explicit Queue(size_t most) : most_(most) {}

  struct Entry {
    Step step;
    Refuse refuse;
  };

  void Add(Entry entry) {
    const std::lock_guard lock(mu_);
    queue_.push_back(std::move(entry));
    if (idle_ == 0 && threads_.size() < most_) {
      threads_.emplace_back([self = shared_from_this()] { self->Run(); });
    }
    changed_.notify_one();
  }

  void Drain() {
    const size_t own = at_work_for == this ? 1 : 0;  // called from a callback
    std::unique_lock lock(mu_);
    ++draining_;
    changed_.notify_all();
    finished_.wait(lock, [&] { return queue_.empty() && working_ <= own; });
    --draining_;
  }

  void End() {
    {
      const std::lock_guard lock(mu_);
      ending_ = true;
      changed_.notify_all();
    }
    // Called by one of them, where a job let go of the last reference: nobody waits for anybody.
    // They end by themselves, and all that they touch is theirs: this queue, and what jobs hold.
    const bool own = at_work_for == this;
    for (std::thread& thread : threads_) own ? thread.detach() : thread.join();
  }

 private:
  void Run() {
    at_work_for = this;
    std::unique_lock lock(mu_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      --idle_;
      if (queue_.empty()) return;
      Entry entry = std::move(queue_.front());
      queue_.pop_front();
      ++working_;
      const bool refused = draining_ > 0;
      lock.unlock();
      bool more = false;
      if (refused) {
        entry.refuse(absl::CancelledError("the node has ended"));
      } else {
        more = entry.step();
      }
      if (!more) entry = {};  // what it holds goes before it counts as ended
      lock.lock();
      if (more) queue_.push_back(std::move(entry));
      --working_;
      finished_.notify_all();
    }
  }

  const size_t most_;
  std::mutex mu_;
  std::condition_variable changed_;   // for threads
  std::condition_variable finished_;  // for Drain
  std::deque<Entry> queue_;           // from here on under mu_
  size_t idle_ = 0, working_ = 0, draining_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

StepThreads::StepThreads(int most)
    : most_(most), queue_(std::make_shared<Queue>(static_cast<size_t>(std::max(0, most)))) {}

StepThreads::~StepThreads() { queue_->End(); }

void StepThreads::Add(Step step, Refuse refuse) {
  queue_->Add({std::move(step), std::move(refuse)});
}

void StepThreads::Drain() { queue_->Drain(); }

}  // namespace longhaul
