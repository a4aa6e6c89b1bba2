#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/run/endings.h"
#include "experiments/run/stall_tracker.h"
#include "experiments/spec/spec.h"
#include "experiments/train/branching.h"
#include "experiments/train/event_stream.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// One run in processes of its own, followed through its events: a forked child for a run over
// loopback, a private lab with S x G workers over shaped links for ucx, or with the ranks of a
// [program]. Kill() or the destructor
// ends it and everything it started, and so does the death of the calling process. What stands
// still (a worker, the emulator, any process of the lab) for net.peer_deadline_s ends it too, with
// the rank, the step and the process as the reason; a caller that stands still, likewise.
// Thread safety: none. Start from the main thread, while no other thread exists.
class RunProcess {
 public:
  // `branching`: of a run over loopback alone.
  static absl::StatusOr<std::unique_ptr<RunProcess>> Start(const RunSpec& spec,
                                                           const std::string& checkpoint_directory,
                                                           const Branching& branching = {});
  ~RunProcess();
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  // To poll; readable when there are events, when it is time to look at the processes, or when the
  // run is over. Call Read() then.
  int events_fd() const { return epoll_.get(); }

  // Reads the events that are there. kEnd: the run is over, call Finish().
  absl::StatusOr<EventReader::More> Read(const std::function<void(const nlohmann::json&)>& handle);

  // Waits for the process. OK, or why the run failed, with the rank and the step of the first
  // cause; ranks that ended with it are counted, not quoted. OutOfRange when the loss diverged,
  // FailedPrecondition when links were out of bounds, Unavailable otherwise.
  absl::Status Finish();

  void Kill();

  // Asks a run over loopback to write a checkpoint after its step and to end, by SIGTERM. False:
  // workers over links have no one step that all have ended; they go on from the last checkpoint.
  bool AskToStop() const;

 private:
  RunProcess(const RunSpec& spec, pid_t pid, int events_fd);
  absl::Status Watch();
  std::optional<int> Wait(absl::Duration at_most);  // the wait status
  void Look();
  std::string Describe(const LabMonitor::Finding& finding) const;

  pid_t pid_;  // 0: waited for
  EventReader reader_;
  const KilledBy killed_by_;
  const RunSpec spec_;
  const bool one_process_;
  const bool workers_may_go_;  // a lost group does not end the run
  const absl::Duration deadline_;
  LabMonitor watch_;
  Fd epoll_, timer_;
  bool ended_ = false;  // it has nothing more to say
  bool over_ = false;   // killed by us
  RootCause cause_;
};

}  // namespace longhaul
