#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace longhaul {

// Threads that run what must not run on a transport's progress thread: copies into the caller's
// tensors and the callbacks of Futures, which may be Python, take the interpreter's lock and wait
// for other operations. Thread safe.
//
// Tasks of one lane run one after another, in the order of the calls. Lanes never wait for each
// other: what a callback starts belongs to the next lane, so that it may wait for that. A callback
// that stands still for anything else loses its turn after kPatience: the lane goes on without it,
// beside it. At most kMaxThreads - 1 callbacks of a lane can stand still so at a time; with more,
// the lane waits for one of them to return.
class Finisher {
 public:
  static constexpr std::chrono::milliseconds kPatience{500};
  static constexpr int kMaxThreads = 64;  // of one lane; they start when there is need of them

  Finisher();
  // Tasks already posted still run. Does not join: a thread may itself be waiting for the
  // interpreter's lock that the destroying thread holds.
  ~Finisher();
  Finisher(const Finisher&) = delete;
  Finisher& operator=(const Finisher&) = delete;

  // The lane of an operation that the calling thread starts: 0 outside of tasks, 1 in a task of
  // lane 0, and so on; whichever Finisher runs the task.
  static int LaneHere();

  // A task must not throw.
  void Post(int lane, std::function<void()> task);
  // For tasks that wait for nothing: they run beside every lane.
  void PostCopy(std::function<void()> task) { Post(kCopies, std::move(task)); }

 private:
  static constexpr int kCopies = -1;
  struct Lane;
  std::mutex mu_;
  std::map<int, std::shared_ptr<Lane>>
      lanes_;  // under mu_; shared with threads, which may end last
};

}  // namespace longhaul
