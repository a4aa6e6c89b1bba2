#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/elastic/group_lives.h"
#include "experiments/run/endings.h"
#include "experiments/run/link_faults.h"
#include "experiments/run/stall_tracker.h"
#include "experiments/run/store_process.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/phase_gate.h"
#include "netem/emulator.h"

namespace longhaul {

// The workers of a lab: one process per rank, each in its node. Where a lost group does not end the
// run (outer.on_group_loss = "continue"), a group that loses a worker is ended as a whole and
// started anew, and a process of its own in node 0 serves the c10d store, which then outlives every
// group. Used by the lab's first process, with SIGCHLD blocked in all its threads.
class WorkerPool {
 public:
  // `on_phase` as PhaseGates. All references must outlive the pool.
  WorkerPool(const RunSpec& spec, Emulator& emulator, FdEventSink& sink, int events_fd,
             std::function<void(const std::string&)> on_phase);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  absl::Status StartAll(const std::string& checkpoint_directory);

  // Until every worker has ended. After the first that fails the others get `grace` to notice and
  // end by themselves, then they are killed. Unavailable: the first failure, with its rank.
  // DeadlineExceeded: the emulator's thread stood still for net.peer_deadline_s; nothing that asks
  // it may be called any more, its destructor included.
  absl::Status WaitForAll(absl::Duration grace);

 private:
  absl::Status Start(int rank, int life);
  absl::StatusOr<pid_t> Spawn(int node, std::vector<std::string> argv,
                              std::vector<std::pair<int, int>> fds);
  absl::Status Reap();  // everything that has ended; the first failure
  // A worker of an elastic run has ended: OK, or what ends the run.
  absl::Status Ended(int rank, int wait_status);
  absl::Status GroupLost(int group, const std::string& how);
  absl::Status StartAnew(int group);
  int GroupOf(int rank) const { return rank / static_cast<int>(spec_.ranks()); }
  void SetInStore(const char* key, int group);  // KEY/GROUP/LIFE
  void Tell(const std::string& what, int group, const std::string& said);
  absl::Status CheckAGroupIsLeft(int group, const std::string& how) const;  // OK: somebody is
  // What a worker asks for beside gates (phase_gate.h).
  void Asked(int rank, const std::string& words);
  absl::Status Strike(size_t fault);
  absl::Status StartJoiner(int group);
  bool Runs(int group) const;
  // Who has been stopped for net.peer_deadline_s, the store too, and who is left of a lost group.
  void EndTheStopped();
  enum class Patience { kDeadline, kNone };
  absl::Status CheckLinks(Patience patience);
  void Sleep(absl::Duration at_most);

  const RunSpec& spec_;
  Emulator& emulator_;
  FdEventSink& sink_;
  const int events_fd_;
  const KilledBy killed_by_;
  PhaseGates gates_;
  int child_signal_fd_;
  StallTracker emulator_watch_;
  bool killed_ = false;           // those that did not end by themselves
  std::map<pid_t, int> running_;  // rank by pid

  const bool elastic_;
  std::string checkpoint_directory_;
  bool resumes_ = false;  // every rank has a file of one checkpoint
  StoreProcess store_;
  GroupLives groups_;
  StoppedProcesses stopped_;
  std::vector<int> rank_of_gate_;  // by place in gates_
  bool over_ = false;              // the run has failed
  const std::vector<Fault> script_;
  LinkFaults links_;
  std::set<size_t> struck_;  // of the script, by the lab
  absl::Status asked_;       // what came of what workers asked for
};

}  // namespace longhaul
