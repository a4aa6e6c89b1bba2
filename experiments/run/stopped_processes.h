#pragma once

#include <sys/types.h>

#include <map>

#include "absl/time/time.h"

namespace longhaul {

// Which processes of this machine have been stopped (SIGSTOP, a debugger), and since when: asked
// again and again, as often as it is to be exact.
class StoppedProcesses {
 public:
  // How long it has been seen stopped; 0: it runs, or is not there.
  absl::Duration StoppedFor(pid_t pid, absl::Duration now);
  void Forget(pid_t pid) { since_.erase(pid); }

 private:
  std::map<pid_t, absl::Duration> since_;
};

}  // namespace longhaul
