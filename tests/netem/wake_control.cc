#include "tests/netem/wake_control.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <numeric>

#include "netem/kernel/scheduling.h"

namespace longhaul {
namespace {

constexpr int64_t kPeriodNs = 2'000'000;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void SleepUntil(int64_t ns) {
  const timespec until = {ns / 1'000'000'000, ns % 1'000'000'000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

void StayOn(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

std::vector<int> Processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  return processors;
}

Oversleep Summarize(std::vector<double> late_ms) {
  if (late_ms.empty()) return {};
  std::sort(late_ms.begin(), late_ms.end());
  const double sum = std::accumulate(late_ms.begin(), late_ms.end(), 0.0);
  return {.mean_ms = sum / static_cast<double>(late_ms.size()),
          .p998_ms = late_ms[late_ms.size() * 998 / 1000],
          .max_ms = late_ms.back()};
}

}  // namespace

std::string Oversleep::ToText() const {
  return fmt::format(
      "sleepers woke up late by {:.3f} ms in the mean, {:.3f} at p99.8, {:.3f} at most", mean_ms,
      p998_ms, max_ms);
}

WakeControl::WakeControl() {
  const std::vector<int> processors = Processors();
  late_ms_.resize(processors.size());
  for (size_t i = 0; i < processors.size(); ++i) {
    sleepers_.emplace_back([this, i, processor = processors[i]] {
      StayOn(processor);
      EnterRealTime(RealTime::kEmulator);
      // A wake-up that was overslept is late too: the share of time in which one would be.
      for (int64_t due = NowNs() + kPeriodNs; !stop_; due += kPeriodNs) {
        SleepUntil(due);
        late_ms_[i].push_back(static_cast<double>(NowNs() - due) / 1e6);
      }
    });
  }
}

Oversleep WakeControl::Stop() {
  if (sleepers_.empty()) return worst_;
  stop_ = true;
  for (std::thread& sleeper : sleepers_) sleeper.join();
  sleepers_.clear();
  for (const std::vector<double>& late_ms : late_ms_) {
    const Oversleep one = Summarize(late_ms);
    worst_.mean_ms = std::max(worst_.mean_ms, one.mean_ms);
    worst_.p998_ms = std::max(worst_.p998_ms, one.p998_ms);
    worst_.max_ms = std::max(worst_.max_ms, one.max_ms);
  }
  return worst_;
}

bool CanJudgeRtt(const Oversleep& oversleep) {
  return oversleep.mean_ms <= 0.1 && oversleep.p998_ms <= 0.5;
}
bool CanJudgeRate(const Oversleep& oversleep) { return oversleep.max_ms <= 5; }

}  // namespace longhaul
