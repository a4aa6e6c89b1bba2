#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// How often to look for what stands still, so that a deadline is missed by an eighth at most.
absl::Duration LookInterval(absl::Duration deadline);

// Who has stood still, and for how long, from looks at regular intervals. Pure: time is given.
// A look that comes late says that the watcher itself was stopped, perhaps together with what it
// watches (Ctrl-Z): nobody is blamed for the time that it missed.
class StallTracker {
 public:
  explicit StallTracker(absl::Duration interval) : interval_(interval) {}

  void Look(absl::Duration now);         // begins a look; `now` on one monotonic clock
  void Saw(int64_t who, bool is_still);  // in this look; who is not seen in a look is forgotten

  struct Standstill {
    int64_t who;
    absl::Duration lasted;  // from the first look that saw it still to the latest
  };
  // Of those seen still in the latest look, the one that stopped first.
  std::optional<Standstill> Longest() const;

 private:
  struct Still {
    absl::Duration since;
    uint64_t look;
  };
  const absl::Duration interval_;
  std::optional<absl::Duration> now_;
  uint64_t look_ = 0;
  std::map<int64_t, Still> still_;
};

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

// The letter of a process' state in the text of /proc/PID/stat; nullopt: no such text.
std::optional<char> StateLetter(const std::string& stat);
// Stopped by a signal (T) or held by a debugger (t): it does nothing until somebody lets it.
bool StandsStill(char state);

// Looks at the processes of one run from outside: the run's only one over loopback; in a lab the
// keeper, the first process, the one with the emulator and its workers.
class LabMonitor {
 public:
  enum class Kind { kOneProcess, kLab };
  // `first`: the child of the command.
  LabMonitor(pid_t first, Kind kind, absl::Duration interval);

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
  StallTracker watch_;
};

// Exit status of a lab that ended because the command, its recorder, stood still.
constexpr int kExitCommandStoodStill = 121;

// The lab's look at the command that records it, from a thread of its own. A command that is
// stopped reads no events: the pipe fills, every worker blocks in it, and links and workers would
// be held for as long as nobody lets the command go on. After `deadline` of that this process ends
// with kExitCommandStoodStill, and the kernel takes the lab with it.
class CommandWatch {
 public:
  // `stat_fd`: /proc/self/stat opened in the command; -1: nothing is watched. Not owned.
  CommandWatch(int stat_fd, absl::Duration deadline);
  ~CommandWatch();
  CommandWatch(const CommandWatch&) = delete;
  CommandWatch& operator=(const CommandWatch&) = delete;

 private:
  void Main();

  const int stat_fd_;
  const absl::Duration deadline_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace longhaul
