#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "netem/emulator.h"
#include "netem/lab_control/lab_messages.h"
#include "netem/lab_control/path_change.h"

namespace longhaul {

// Answers the requests of lab_messages.h for one built lab. Thread safety: any thread; requests run
// side by side, but for changes of a path, which wait for probes to end.
class LabRequests {
 public:
  LabRequests(std::string name, std::unique_ptr<Emulator> emulator);

  // `fds` gets descriptors to send along; they stay ours.
  nlohmann::json Answer(const nlohmann::json& request, std::vector<int>& fds);

 private:
  nlohmann::json Info() const;
  nlohmann::json Stats() const;
  nlohmann::json Probe(const nlohmann::json& request) const;
  nlohmann::json Set(const nlohmann::json& request);
  nlohmann::json Enter(const nlohmann::json& request, std::vector<int>& fds) const;
  nlohmann::json Figures(const PathSpec& path) const;
  nlohmann::json Unreachable(const PathSpec& path, const std::string& why) const;
  std::string WhyUnreachable(const PathSpec& path) const;
  absl::StatusOr<std::vector<std::pair<int, int>>> SetPaths(const std::string& selector,
                                                            const std::vector<std::string>& words);
  absl::Status Apply(const std::vector<PathChange>& changes);
  absl::Status SetCarrier(int from, int to, Carrier carrier);
  void EndOutage(int from, int to, absl::Duration after);
  void FollowSchedule();

  const std::string name_;
  const absl::Time started_;
  std::shared_mutex mu_;  // exclusive: the emulator is changed
  std::unique_ptr<Emulator> emulator_;
  std::set<std::pair<int, int>> down_;  // paths that were taken down
  std::string failed_change_;           // of the schedule; "": none
  Fd user_ns_, mount_ns_, pid_ns_;      // of this process
};

}  // namespace longhaul
