#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

class LoopbackTransport;

// Where the loopback nodes of this process find each other, and what wakes them when a deadline
// passes. Holds them weakly; lives as long as one of them does. Its one thread starts with the
// first finite deadline, sleeps until one is due, and delivers nothing. Thread safe.
class LoopbackHub : public std::enable_shared_from_this<LoopbackHub> {
 public:
  static std::shared_ptr<LoopbackHub> OfThisProcess();
  ~LoopbackHub();

  std::string NewKey();
  void Add(std::string_view key, std::weak_ptr<LoopbackTransport> transport);
  void Remove(std::string_view key);
  std::shared_ptr<LoopbackTransport> Find(std::string_view key) const;

  // Calls transport->OnAlarm() after `delay`. A transport may have several alarms pending.
  void SetAlarm(absl::Duration delay, std::weak_ptr<LoopbackTransport> transport);

 private:
  struct Alarms;
  static void RunAlarms(std::shared_ptr<Alarms> alarms);

  mutable std::mutex mu_;
  std::map<std::string, std::weak_ptr<LoopbackTransport>, std::less<>> nodes_;  // under mu_
  int next_key_ = 0;                                                            // under mu_
  const std::shared_ptr<Alarms> alarms_;  // shared with the thread, which may end last

  LoopbackHub();
};

}  // namespace longhaul
