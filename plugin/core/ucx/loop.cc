#include "plugin/core/ucx/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace longhaul {
namespace {

constexpr absl::Duration kLongestSleep = absl::Hours(1);

}  // namespace

WakeLoop::WakeLoop(const Clock* clock)
    : clock_(clock),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

WakeLoop::~WakeLoop() {
  if (epoll_ >= 0) ::close(epoll_);
  if (event_ >= 0) ::close(event_);
}

absl::Status WakeLoop::Watch(int fd) {
  for (const int watched : {event_, fd}) {
    struct epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = watched;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, watched, &event) != 0 && errno != EEXIST) {
      return absl::InternalError(fmt::format("epoll_ctl: {}", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

bool WakeLoop::Post(Task task) {
  const std::lock_guard lock(mu_);
  if (closed_) return false;
  queue_.push_back(std::move(task));
  if (std::exchange(asleep_, false)) ::eventfd_write(event_, 1);
  return true;
}

void WakeLoop::Wake() {
  const std::lock_guard lock(mu_);
  woken_ = true;
  if (std::exchange(asleep_, false)) ::eventfd_write(event_, 1);
}

void WakeLoop::Close() {
  const std::lock_guard lock(mu_);
  closed_ = true;
}

bool WakeLoop::RunTasks() {
  std::deque<Task> tasks;
  {
    const std::lock_guard lock(mu_);
    tasks.swap(queue_);
  }
  const bool any = !tasks.empty();
  while (!tasks.empty()) {
    tasks.front()();
    tasks.pop_front();
  }
  return any;
}

bool WakeLoop::TimerDue() {
  if (due_ == absl::InfiniteDuration() || clock_->Now() < due_) return false;
  due_ = absl::InfiniteDuration();
  return true;
}

void WakeLoop::Sleep() {
  {
    const std::lock_guard lock(mu_);
    if (!queue_.empty() || std::exchange(woken_, false)) return;
    asleep_ = true;
  }
  absl::Duration left = kLongestSleep;
  if (due_ != absl::InfiniteDuration()) {
    left = std::clamp(due_ - clock_->Now(), absl::ZeroDuration(), kLongestSleep);
  }
  // Rounded up: waking early would mean asking again and again until it is due.
  const auto milliseconds = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
  struct epoll_event events[8];
  ::epoll_wait(epoll_, events, 8, static_cast<int>(milliseconds));
  eventfd_t ignored;
  ::eventfd_read(event_, &ignored);
  const std::lock_guard lock(mu_);
  asleep_ = false;
}

}  // namespace longhaul
