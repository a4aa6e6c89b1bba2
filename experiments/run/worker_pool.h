#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/run/killed_by.h"
#include "experiments/run/standstill.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/phase_gate.h"
#include "netem/emulator.h"

namespace longhaul {

// The workers of a lab: one process per rank, each in its node. Used by the lab's first process,
// with SIGCHLD blocked in all its threads.
class WorkerPool {
 public:
  // `on_phase` as PhaseGates. All references must outlive the pool.
  WorkerPool(const RunSpec& spec, const Emulator& emulator, FdEventSink& sink, int events_fd,
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
  absl::Status Start(int rank, const std::string& checkpoint_directory);
  absl::Status Reap();  // everything that has ended; the first failure
  enum class Patience { kDeadline, kNone };
  absl::Status CheckLinks(Patience patience);
  void Sleep(absl::Duration at_most);

  const RunSpec& spec_;
  const Emulator& emulator_;
  FdEventSink& sink_;
  const int events_fd_;
  const KilledBy killed_by_;
  PhaseGates gates_;
  int child_signal_fd_;
  StandstillWatch emulator_watch_;
  bool killed_ = false;           // those that did not end by themselves
  std::map<pid_t, int> running_;  // rank by pid
};

}  // namespace longhaul
