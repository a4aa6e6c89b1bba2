#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "experiments/run/standstill.h"

namespace longhaul {

// The letter of a process' state in the text of /proc/PID/stat; nullopt: no such text.
std::optional<char> StateLetter(const std::string& stat);
// Stopped by a signal (T) or held by a debugger (t): it does nothing until somebody lets it.
bool StandsStill(char state);

// Looks at the processes of one run from outside: the run's only one over loopback; in a lab the
// keeper, the first process, the one with the emulator and its workers.
class LabWatch {
 public:
  enum class Kind { kOneProcess, kLab };
  // `first`: the child of the command.
  LabWatch(pid_t first, Kind kind, absl::Duration interval);

  struct Finding {
    pid_t pid;        // as the command sees it
    std::string who;  // "the lab's first process"; empty for a worker
    int rank;         // of a worker, else -1
    char state;
    absl::Duration lasted;
  };
  // The process that stands still longest just now, if any does.
  std::optional<Finding> Look(absl::Duration now);

 private:
  const pid_t first_;
  const Kind kind_;
  StandstillWatch watch_;
};

}  // namespace longhaul
