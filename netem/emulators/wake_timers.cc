#include "netem/emulators/wake_timers.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/status_macros.h"

namespace longhaul {

absl::Status WakeTimers::Open(int epoll_fd, uint64_t token) {
  for (Timer& timer : timers_) {
    timer.fd = Fd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    epoll_event event{EPOLLIN | EPOLLET, {.u64 = token}};
    if (!timer.fd.ok() || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer.fd.get(), &event) != 0) {
      return ErrnoStatus("tap: a timer to sleep on", errno);
    }
  }
  return absl::OkStatus();
}

bool WakeTimers::Serves(const Timer& timer, int64_t at_ns, int64_t tolerance_ns) {
  return timer.at_ns && std::abs(*timer.at_ns - at_ns) <= tolerance_ns;
}

absl::Status WakeTimers::SetOne(Timer& timer, int64_t at_ns) {
  const itimerspec time{{}, {at_ns / 1'000'000'000, at_ns % 1'000'000'000}};
  if (timerfd_settime(timer.fd.get(), TFD_TIMER_ABSTIME, &time, nullptr) != 0) {
    return ErrnoStatus("tap: set a timer", errno);
  }
  timer.at_ns = at_ns;
  return absl::OkStatus();
}

absl::Status WakeTimers::Set(int64_t first_ns, std::optional<int64_t> second_ns,
                             int64_t tolerance_ns) {
  Timer* first = &timers_[0];
  Timer* second = &timers_[1];
  if (Serves(*second, first_ns, tolerance_ns)) std::swap(first, second);
  if (!Serves(*first, first_ns, tolerance_ns)) {
    // Rather one that has passed than one that may serve as the second.
    if (first->at_ns && !second->at_ns) std::swap(first, second);
    RETURN_IF_ERROR(SetOne(*first, first_ns));
  }
  if (!second_ns || Serves(*second, *second_ns, tolerance_ns)) return absl::OkStatus();
  return SetOne(*second, *second_ns);
}

std::optional<int64_t> WakeTimers::Passed(int64_t now_ns) {
  std::optional<int64_t> latest;
  for (Timer& timer : timers_) {
    if (!timer.at_ns || *timer.at_ns > now_ns) continue;
    latest = std::max(latest, timer.at_ns);
    timer.at_ns.reset();
  }
  return latest;
}

}  // namespace longhaul
