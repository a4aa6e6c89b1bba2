#include "plugin/backend/finisher.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace longhaul {

struct Finisher::Queue {
  std::mutex mu;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool started = false;
  bool stopping = false;

  void Run() {
    std::unique_lock<std::mutex> lock(mu);
    while (true) {
      changed.wait(lock, [this] { return stopping || !tasks.empty(); });
      if (tasks.empty()) return;
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // what it held goes before the lock is taken again
      lock.lock();
    }
  }
};

Finisher::Finisher() : queue_(std::make_shared<Queue>()) {}

Finisher::~Finisher() {
  std::lock_guard<std::mutex> lock(queue_->mu);
  queue_->stopping = true;
  queue_->changed.notify_all();
}

void Finisher::Post(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(queue_->mu);
  queue_->tasks.push_back(std::move(task));
  if (!queue_->started) {
    queue_->started = true;
    std::thread([queue = queue_] { queue->Run(); }).detach();
  }
  queue_->changed.notify_one();
}

}  // namespace longhaul
