#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace longhaul {

// The threads that share the work on one big tensor: one pool per process. They sleep until there
// is work, so an idle pool costs nothing. Work is cut into parts whose borders depend on the tensor
// alone and every part writes its own bytes, so frames and decoded bits are the same with any
// number of threads.
class CodecThreads {
 public:
  // The process's pool. Starts with one thread: the caller of a codec, and nobody else.
  static CodecThreads& Process();

  CodecThreads() = default;
  ~CodecThreads() { SetCount(1); }
  CodecThreads(const CodecThreads&) = delete;
  CodecThreads& operator=(const CodecThreads&) = delete;

  // How many threads work on one tensor, the caller's own among them; 0 counts as 1. Waits for work
  // that is under way. Not to be called from inside a part.
  void SetCount(size_t threads);
  size_t count() const;

  // Calls part(i) once for every i < parts, on the caller's thread and the pool's, in any order;
  // answers when all are done. Parts must not throw. While the pool is at work for another caller,
  // the caller does all parts by itself: no call waits for another one. Allocates nothing.
  template <typename Part>
  void Run(size_t parts, Part&& part) {
    using Plain = std::remove_reference_t<Part>;
    RunParts(parts, {[](void* context, size_t i) { (*static_cast<Plain*>(context))(i); },
                     const_cast<std::remove_const_t<Plain>*>(std::addressof(part))});
  }

 private:
  struct Task {
    void (*call)(void* context, size_t i) = nullptr;
    void* context = nullptr;
  };

  void RunParts(size_t parts, Task task);
  void Work(std::unique_lock<std::mutex>& lock);
  void WorkerLoop();

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // for the workers: parts to take, or stop
  std::condition_variable done_;  // for callers: the last part has finished, or nobody is busy
  // Guarded by mutex_:
  bool busy_ = false;  // somebody's parts are at work, or the threads are being changed
  bool stop_ = false;
  Task task_;
  size_t parts_ = 0, next_ = 0, finished_ = 0;
  std::vector<std::thread> workers_;
};

// Elements of a tensor that are worth waking another thread for: some tens of microseconds of work.
inline constexpr size_t kWorthAThread = size_t{64} << 10;

// `total` things that a codec treats one after the other (blocks, chunks, elements), cut into
// slices of at least `least`; never more than kMost, so that what the slices answer fits on the
// stack.
struct Slices {
  static constexpr size_t kMost = 64;
  Slices(size_t total, size_t least)
      : total(total), length(std::max({least, (total + kMost - 1) / kMost, size_t{1}})) {}
  size_t count() const { return (total + length - 1) / length; }
  size_t first(size_t slice) const { return slice * length; }
  size_t last(size_t slice) const { return std::min(total, (slice + 1) * length); }
  size_t total, length;
};

// Calls part(slice) for every slice on the process's pool and answers what the first of them, in
// the tensor's order, said other than Answer{}; Answer{} where none did.
template <typename Part>
auto FirstAnswer(const Slices& slices, Part&& part) {
  using Answer = std::invoke_result_t<Part&, size_t>;
  Answer answers[Slices::kMost] = {};
  // Once per slice: the answers share cache lines, for which threads would wait in turn.
  CodecThreads::Process().Run(slices.count(), [&](size_t i) { answers[i] = part(i); });
  for (const Answer answer : answers) {
    if (answer != Answer{}) return answer;
  }
  return Answer{};
}

}  // namespace longhaul
