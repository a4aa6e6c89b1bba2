#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "netem/emulator.h"
#include "netem/gateway/gateway.h"
#include "netem/lab_control/lab_changes.h"
#include "netem/lab_control/lab_messages.h"

namespace longhaul {

// Answers the requests of lab_messages.h for one built lab, and makes its scheduled changes. Thread
// safety: any thread; requests and changes go on beside a probe.
class LabRequests {
 public:
  // `gateway`: null where the lab has none.
  LabRequests(std::string name, std::unique_ptr<Emulator> emulator,
              std::unique_ptr<Gateway> gateway = nullptr);
  ~LabRequests();

  // `fds` gets descriptors to send along; they stay ours.
  nlohmann::json Answer(const nlohmann::json& request, std::vector<int>& fds);

 private:
  struct Probing;
  void KeepTime();
  absl::StatusOr<Probing> BeginProbe(const std::string& selector) const;
  nlohmann::json Probe(const nlohmann::json& request) const;
  // The caller of these holds mu_.
  nlohmann::json Info() const;
  nlohmann::json Stats() const;
  nlohmann::json Set(const nlohmann::json& request);
  nlohmann::json Enter(const nlohmann::json& request, std::vector<int>& fds) const;
  nlohmann::json Figures(const PathSpec& path) const;
  nlohmann::json LateChanges() const;
  nlohmann::json GatewayTraffic() const;
  std::string Broken() const;
  nlohmann::json Unreachable(const PathSpec& path, const std::string& why) const;
  std::string WhyUnreachable(const PathSpec& path) const;

  const std::string name_;
  const absl::Time started_;
  mutable std::mutex mu_;  // held for moments only
  std::unique_ptr<Emulator> emulator_;
  std::unique_ptr<Gateway> gateway_;
  LabChanges changes_;
  Fd user_ns_, mount_ns_, pid_ns_;  // of this process
  bool ending_ = false;
  std::condition_variable wake_;  // something is due earlier than was known, or the end
  std::thread timekeeper_;        // last: it uses all of the above
};

}  // namespace longhaul
