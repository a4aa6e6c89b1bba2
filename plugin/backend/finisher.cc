#include "plugin/backend/finisher.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

namespace longhaul {
namespace {

thread_local int lane_of_this_task = -1;  // -1: no task, or a copy

}  // namespace

// One thread has the turn and runs a task; another, if there is need, waits for the turn to end or
// to grow old.
struct Finisher::Lane : std::enable_shared_from_this<Finisher::Lane> {
  using Clock = std::chrono::steady_clock;
  std::mutex mu;  // guards all below
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  int threads = 0, waiting = 0;
  uint64_t turn = 0;  // number of the last one that began
  bool taken = false;
  Clock::time_point old_at;  // when the turn that is taken may be passed
  bool stopping = false;

  void EnsureWaiter(int number) {
    if (waiting > 0 || threads == kMaxThreads) return;
    ++threads;
    ++waiting;
    std::thread([self = shared_from_this(), number] { self->Run(number); }).detach();
  }

  // True: a task may be taken. False: there will be none.
  bool AwaitTurn(std::unique_lock<std::mutex>& lock) {
    while (tasks.empty() || (taken && Clock::now() < old_at)) {
      if (!tasks.empty()) {
        changed.wait_until(lock, old_at);
      } else if (stopping) {
        return false;
      } else {
        changed.wait(lock);
      }
    }
    return true;
  }

  void Run(int number) {
    lane_of_this_task = number;
    std::unique_lock<std::mutex> lock(mu);
    while (AwaitTurn(lock)) {
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      const uint64_t mine = ++turn;
      taken = true;
      old_at = Clock::now() + kPatience;
      --waiting;
      if (!tasks.empty()) EnsureWaiter(number);
      lock.unlock();
      task();
      task = nullptr;  // what it held goes before the lock is taken again
      lock.lock();
      if (turn != mine && waiting > 0) {  // passed: the lane has another thread
        --threads;
        return;
      }
      ++waiting;
      if (turn == mine) taken = false;
      changed.notify_all();
    }
    --waiting;
    --threads;
  }
};

Finisher::Finisher() = default;

Finisher::~Finisher() {
  for (const auto& [number, lane] : lanes_) {
    const std::lock_guard<std::mutex> lock(lane->mu);
    lane->stopping = true;
    lane->changed.notify_all();
  }
}

int Finisher::LaneHere() { return lane_of_this_task + 1; }

void Finisher::Post(int number, std::function<void()> task) {
  std::shared_ptr<Lane> lane;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    std::shared_ptr<Lane>& found = lanes_[number];
    if (found == nullptr) found = std::make_shared<Lane>();
    lane = found;
  }
  const std::lock_guard<std::mutex> lock(lane->mu);
  lane->tasks.push_back(std::move(task));
  lane->EnsureWaiter(number);
  lane->changed.notify_all();
}

}  // namespace longhaul
