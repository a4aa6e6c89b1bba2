#include "experiments/train/stall_detector.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "netem/kernel/scheduling.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);

}  // namespace

// A line of schedstat: ns on a core, ns of waiting for one, turns.
std::optional<absl::Duration> WaitedForCores() {
  std::error_code error;
  std::optional<absl::Duration> sum;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream file(it->path() / "schedstat");
    int64_t ran_ns = 0, waited_ns = 0;
    if (file >> ran_ns >> waited_ns) {
      sum = sum.value_or(absl::ZeroDuration()) + absl::Nanoseconds(waited_ns);
    }
  }
  return sum;
}

std::optional<StolenTicks> StolenIn(const std::string& stat) {
  std::istringstream fields(stat);
  std::string name;
  if (!(fields >> name) || name != "cpu") return std::nullopt;
  StolenTicks out;
  // user nice system idle iowait irq softirq steal; what guests took is in user and nice.
  for (int i = 0; i < 8; ++i) {
    int64_t ticks = 0;
    if (!(fields >> ticks)) return std::nullopt;
    out.all += ticks;
    if (i == 7) out.stolen = ticks;
  }
  return out;
}

std::optional<StolenTicks> Stolen() {
  std::string first;
  std::getline(std::ifstream("/proc/stat"), first);
  return StolenIn(first);
}

StallDetector::StallDetector() : stop_(eventfd(0, EFD_CLOEXEC)) {
  Restart();
  if (!stop_.ok()) return;
  thread_ = ThreadWithoutSignals([this] { Main(); });
}

StallDetector::~StallDetector() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StallDetector::Restart() {
  const std::lock_guard lock(mu_);
  longest_ = sum_ = absl::ZeroDuration();
  begun_ = MonotonicClock().Now();
  due_ = begun_ + kInterval;
  waited_at_begin_ = WaitedForCores();
  stolen_at_begin_ = Stolen();
}

absl::Duration StallDetector::Longest() {
  const std::lock_guard lock(mu_);
  Woke(MonotonicClock().Now());  // it may be asked before the thread has had its turn again
  return longest_;
}

Disturbance StallDetector::Disturbed() {
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

void StallDetector::Woke(absl::Duration now) {
  longest_ = std::max(longest_, now - due_);
  if (now - due_ >= kNoticedStillness) sum_ += now - due_;
  due_ = std::max(due_, now);
}

void StallDetector::Main() {
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
