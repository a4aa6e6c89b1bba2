#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// Moments that all workers of a lab pass together, so that the lab can read the links' counters
// between them: "ready" (connected, nothing sent yet), "checkpoint N" (written after step N) and
// "trained". One SEQPACKET socket a worker.
std::string CheckpointPhase(int64_t step);
std::optional<int64_t> CheckpointStep(const std::string& phase);  // nullopt: another phase

// Told by a worker that was started anew, once it has the training's state: from then on others
// wait for it at gates. Nobody waits here.
inline constexpr char kJoinedPhase[] = "joined";

// What a worker asks of the lab beside gates: words that begin so are done and answered at once.
// "ask strike K", "ask mend K": of fault K of the drawn script; "ask member": this rank's group has
// taken an outer step.
inline constexpr char kAsk[] = "ask ";
inline constexpr char kAskStrike[] = "ask strike ";
inline constexpr char kAskMend[] = "ask mend ";
inline constexpr char kAskMember[] = "ask member";

// Worker's side: tells the lab and blocks until every worker has. A lab that is gone opens every
// gate. fd < 0: there is no lab (a cluster, one process): returns at once.
void PassPhase(int fd, const std::string& phase);

// The lab's side, fed by its poll loop. `on_phase` runs once per phase, when the last worker has
// arrived and before any goes on. Where workers come and go: who is gone is not waited for, nor is
// who was started anew until it has joined; gates that were passed before it came are open to it.
class PhaseGates {
 public:
  explicit PhaseGates(std::function<void(const std::string&)> on_phase)
      : on_phase_(std::move(on_phase)) {}
  ~PhaseGates();
  PhaseGates(const PhaseGates&) = delete;
  PhaseGates& operator=(const PhaseGates&) = delete;

  // A new worker; returns the descriptor to inherit (the caller closes its copy after the start).
  // `anew`: the others are under way.
  absl::StatusOr<int> AddWorker(bool anew = false);
  // From now on a worker that has ended is not waited for.
  void WorkersMayEnd() { may_end_ = true; }
  const std::vector<int>& fds() const { return fds_; }  // to poll; -1 where a worker is gone
  void Arrived(size_t worker);                          // its descriptor is readable
  std::vector<size_t> TakeJoined() { return std::exchange(joined_, {}); }  // since the last call
  // What to do with words that begin with kAsk, before they are answered.
  void OnAsk(std::function<void(size_t worker, const std::string& words)> call) {
    on_ask_ = std::move(call);
  }
  void OpenAll();  // for good: a worker has failed

 private:
  std::function<void(const std::string&)> on_phase_;
  std::vector<int> fds_;
  void Pass(const std::string& phase);
  void LookAtAll();

  std::function<void(size_t, const std::string&)> on_ask_;
  std::vector<size_t> joined_;
  std::set<size_t> outside_;  // gone, or not joined yet
  std::map<std::string, std::set<size_t>> waiting_;
  std::set<std::string> passed_;
  bool open_ = false, may_end_ = false;
};

}  // namespace longhaul
