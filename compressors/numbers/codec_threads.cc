#include "compressors/numbers/codec_threads.h"

#include <algorithm>

namespace longhaul {

CodecThreads& CodecThreads::Process() {
  static CodecThreads pool;
  return pool;
}

void CodecThreads::SetCount(size_t threads) {
  const size_t workers = std::max<size_t>(threads, 1) - 1;
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return !busy_; });
  if (workers == workers_.size()) return;
  busy_ = stop_ = true;
  lock.unlock();
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  lock.lock();
  stop_ = false;
  workers_.clear();
  for (size_t i = 0; i < workers; ++i) workers_.emplace_back([this] { WorkerLoop(); });
  busy_ = false;
  done_.notify_all();
}

size_t CodecThreads::count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return workers_.size() + 1;
}

void CodecThreads::RunParts(size_t parts, Task task) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (parts < 2 || busy_ || workers_.empty()) {
    lock.unlock();
    for (size_t i = 0; i < parts; ++i) task.call(task.context, i);
    return;
  }
  busy_ = true;
  task_ = task;
  parts_ = parts;
  next_ = finished_ = 0;
  for (size_t i = 0; i < std::min(workers_.size(), parts - 1); ++i) wake_.notify_one();
  Work(lock);
  done_.wait(lock, [this] { return finished_ == parts_; });
  busy_ = false;
  done_.notify_all();
}

// Takes parts until none is left; the lock is held on entry and on return.
void CodecThreads::Work(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const size_t i = next_++;
    const Task task = task_;
    lock.unlock();
    task.call(task.context, i);
    lock.lock();
    if (++finished_ == parts_) done_.notify_all();
  }
}

void CodecThreads::WorkerLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || next_ < parts_; });
    if (stop_) return;
    Work(lock);
  }
}

}  // namespace longhaul
