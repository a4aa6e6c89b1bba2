#include "plugin/core/loopback/hub.h"

#include <unistd.h>

#include <chrono>

#include <fmt/format.h>

#include "plugin/core/loopback/transport.h"

namespace longhaul {

struct LoopbackHub::Alarms {
  using Time = std::chrono::steady_clock::time_point;
  std::mutex mu;
  std::condition_variable changed;
  std::multimap<Time, std::weak_ptr<LoopbackTransport>> due;  // under mu
  bool stopped = false;                                       // under mu
  std::thread thread;
};

std::shared_ptr<LoopbackHub> LoopbackHub::OfThisProcess() {
  static std::mutex mu;
  static std::weak_ptr<LoopbackHub> hub;
  const std::lock_guard lock(mu);
  std::shared_ptr<LoopbackHub> existing = hub.lock();
  if (existing == nullptr) {
    existing.reset(new LoopbackHub);
    hub = existing;
  }
  return existing;
}

LoopbackHub::LoopbackHub() : alarms_(std::make_shared<Alarms>()) {}

LoopbackHub::~LoopbackHub() {
  {
    const std::lock_guard lock(alarms_->mu);
    alarms_->stopped = true;
    alarms_->changed.notify_all();
  }
  if (!alarms_->thread.joinable()) return;
  if (alarms_->thread.get_id() == std::this_thread::get_id()) {
    alarms_->thread.detach();  // the last node went in a callback of an expired deadline
  } else {
    alarms_->thread.join();
  }
}

std::string LoopbackHub::NewKey() {
  const std::lock_guard lock(mu_);
  return fmt::format("loopback:{}:{}", ::getpid(), next_key_++);
}

void LoopbackHub::Add(std::string_view key, std::weak_ptr<LoopbackTransport> transport) {
  const std::lock_guard lock(mu_);
  nodes_.emplace(key, std::move(transport));
}

void LoopbackHub::Remove(std::string_view key) {
  const std::lock_guard lock(mu_);
  const auto found = nodes_.find(key);
  if (found != nodes_.end()) nodes_.erase(found);
}

std::shared_ptr<LoopbackTransport> LoopbackHub::Find(std::string_view key) const {
  const std::lock_guard lock(mu_);
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? nullptr : found->second.lock();
}

void LoopbackHub::SetAlarm(absl::Duration delay, std::weak_ptr<LoopbackTransport> transport) {
  const auto when = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay);
  const std::lock_guard lock(alarms_->mu);
  if (!alarms_->thread.joinable()) alarms_->thread = std::thread(&RunAlarms, alarms_);
  const auto at = alarms_->due.emplace(when, std::move(transport));
  if (at == alarms_->due.begin()) alarms_->changed.notify_all();
}

void LoopbackHub::RunAlarms(std::shared_ptr<Alarms> alarms) {
  std::unique_lock lock(alarms->mu);
  while (!alarms->stopped) {
    if (alarms->due.empty()) {
      alarms->changed.wait(lock);
      continue;
    }
    const Alarms::Time when = alarms->due.begin()->first;
    if (std::chrono::steady_clock::now() < when) {
      alarms->changed.wait_until(lock, when);
      continue;
    }
    std::shared_ptr<LoopbackTransport> transport = alarms->due.begin()->second.lock();
    alarms->due.erase(alarms->due.begin());
    lock.unlock();
    if (transport != nullptr) transport->OnAlarm();
    transport.reset();
    lock.lock();
  }
}

}  // namespace longhaul
