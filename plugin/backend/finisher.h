#pragma once

#include <functional>
#include <memory>

namespace longhaul {

// A thread that runs what must not run on a transport's progress thread: copies into the caller's
// tensors and the callbacks of Futures, which may be Python and take the interpreter's lock. It
// starts at the first task. Thread safe.
class Finisher {
 public:
  Finisher();
  // Tasks already posted still run. Does not join: the thread may itself be waiting for the
  // interpreter's lock that the destroying thread holds.
  ~Finisher();
  Finisher(const Finisher&) = delete;
  Finisher& operator=(const Finisher&) = delete;

  // In the order of the calls. A task must not throw.
  void Post(std::function<void()> task);

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this object
};

}  // namespace longhaul
