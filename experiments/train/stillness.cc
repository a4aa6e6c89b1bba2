#include "experiments/train/stillness.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "plugin/core/clock.h"

namespace longhaul {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);

}  // namespace

StillnessMeter::StillnessMeter() : stop_(eventfd(0, EFD_CLOEXEC)) {
  Restart();
  if (!stop_.ok()) return;
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Main(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StillnessMeter::~StillnessMeter() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StillnessMeter::Restart() {
  const std::lock_guard lock(mu_);
  longest_ = sum_ = absl::ZeroDuration();
  begun_ = MonotonicClock().Now();
  due_ = begun_ + kInterval;
  waited_at_begin_ = WaitedForCores();
  stolen_at_begin_ = Stolen();
}

absl::Duration StillnessMeter::Longest() {
  const std::lock_guard lock(mu_);
  Woke(MonotonicClock().Now());  // it may be asked before the thread has had its turn again
  return longest_;
}

Disturbance StillnessMeter::Disturbed() {
  const std::lock_guard lock(mu_);
  const absl::Duration now = MonotonicClock().Now();
  Woke(now);
  const absl::Duration whole = std::max(now - begun_, absl::Nanoseconds(1));
  Disturbance out{
      .still = absl::FDivDuration(sum_, whole), .core_wait = std::nullopt, .stolen = std::nullopt};
  const std::optional<absl::Duration> waited = WaitedForCores();
  if (waited && waited_at_begin_) {  // threads that ended took theirs with them
    out.core_wait =
        absl::FDivDuration(std::max(*waited - *waited_at_begin_, absl::ZeroDuration()), whole);
  }
  const std::optional<StolenTicks> stolen = Stolen();
  if (stolen && stolen_at_begin_ && stolen->all > stolen_at_begin_->all) {
    out.stolen = static_cast<double>(stolen->stolen - stolen_at_begin_->stolen) /
                 static_cast<double>(stolen->all - stolen_at_begin_->all);
  }
  return out;
}

void StillnessMeter::Woke(absl::Duration now) {
  longest_ = std::max(longest_, now - due_);
  if (now - due_ >= kNoticedStillness) sum_ += now - due_;
  due_ = std::max(due_, now);
}

void StillnessMeter::Main() {
  const timespec interval = absl::ToTimespec(kInterval);
  pollfd stop{stop_.get(), POLLIN, 0};
  while (ppoll(&stop, 1, &interval, nullptr) <= 0) {
    const std::lock_guard lock(mu_);
    const absl::Duration now = MonotonicClock().Now();
    Woke(now);
    due_ = now + kInterval;
  }
}

}  // namespace longhaul
