#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// Moments that all workers of a lab pass together, so that the lab can read the links' counters
// between them: "ready" (connected, nothing sent yet), "checkpoint N" (written after step N) and
// "trained". One SEQPACKET socket a worker.
std::string CheckpointPhase(int64_t step);
std::optional<int64_t> CheckpointStep(const std::string& phase);  // nullopt: another phase

// Worker's side: tells the lab and blocks until every worker has. A lab that is gone opens every
// gate. fd < 0: there is no lab (a cluster, one process): returns at once.
void PassPhase(int fd, const std::string& phase);

// The lab's side, fed by its poll loop. `on_phase` runs once per phase, when the last worker has
// arrived and before any goes on.
class PhaseGates {
 public:
  explicit PhaseGates(std::function<void(const std::string&)> on_phase)
      : on_phase_(std::move(on_phase)) {}
  ~PhaseGates();
  PhaseGates(const PhaseGates&) = delete;
  PhaseGates& operator=(const PhaseGates&) = delete;

  // A new worker; returns the descriptor to inherit (the caller closes its copy after the start).
  absl::StatusOr<int> AddWorker();
  const std::vector<int>& fds() const { return fds_; }  // to poll; -1 where a worker is gone
  void Arrived(size_t worker);                          // its descriptor is readable
  void OpenAll();                                       // for good: a worker has failed

 private:
  std::function<void(const std::string&)> on_phase_;
  std::vector<int> fds_;
  std::map<std::string, size_t> waiting_;
  bool open_ = false;
};

}  // namespace longhaul
