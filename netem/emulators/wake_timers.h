#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// Two timers that a thread sleeps on in epoll, so that the next wake-up but one is already known to
// the kernel when the next one comes. Its interrupt then sets the processor's timer, and the thread
// has no need to: on a virtual machine that takes longer than all else about going to sleep (12 to
// 18 us of 25 to 35 on the one of docs/netem.md), and a frame that wakes the thread does not make
// it set the timer back and forth. Times are CLOCK_MONOTONIC in ns. Thread safety: none.
class WakeTimers {
 public:
  // They show up as events with `token`, each time once.
  absl::Status Open(int epoll_fd, uint64_t token);

  // The thread is to wake at `first_ns` and again at `second_ns`, neither earlier nor later than by
  // `tolerance_ns`. May wake once more for a time that it was told before.
  absl::Status Set(int64_t first_ns, std::optional<int64_t> second_ns, int64_t tolerance_ns);

  // What the thread was to be woken for: the latest time that has come since the last call.
  std::optional<int64_t> Passed(int64_t now_ns);

 private:
  struct Timer {
    Fd fd;
    std::optional<int64_t> at_ns;  // nullopt: not set, or passed
  };
  static bool Serves(const Timer& timer, int64_t at_ns, int64_t tolerance_ns);
  absl::Status SetOne(Timer& timer, int64_t at_ns);

  std::array<Timer, 2> timers_;
};

}  // namespace longhaul
