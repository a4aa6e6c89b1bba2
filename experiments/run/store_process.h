#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/run/stall_tracker.h"

namespace longhaul {

// The process that serves the c10d store of a run whose groups come and go: one of its own, so that
// it outlives every group.
class StoreProcess {
 public:
  StoreProcess() = default;
  ~StoreProcess();  // ends it
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  // Starts `argv` with these descriptors: in the process, and here.
  using Spawn = std::function<absl::StatusOr<pid_t>(std::vector<std::string> argv,
                                                    std::vector<std::pair<int, int>> fds)>;
  absl::Status Start(int port, const Spawn& spawn);

  void Set(const std::string& key);  // to "1"; of a store that is gone: nothing
  // One that is stopped answers nobody: after `deadline` it is killed.
  void EndIfStopped(absl::Duration now, absl::Duration deadline);
  // Unavailable, in words: `pid`, which has ended, was the store. OK: it was not.
  absl::Status Ended(pid_t pid);

 private:
  pid_t pid_ = 0;
  int keys_ = -1;  // keys to set, a line each
  StoppedProcesses stopped_;
  absl::Duration was_stopped_ = absl::ZeroDuration();
};

}  // namespace longhaul
