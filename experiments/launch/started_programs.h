#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

// A program's process, or in a node of a lab one that waits for it and passes signals on to it.
struct StartedProgram {
  pid_t pid;
  std::string name;  // "iperf3 in b"; for messages
};

struct EndingRules {
  absl::Duration grace = absl::Seconds(5);  // until what was told to end is killed
  bool last_decides = false;  // the run is over when the last program has ended, as a client has
  absl::Duration timeout = absl::InfiniteDuration();  // then all are told to end: kTimedOut
  void (*kill)(pid_t) = nullptr;  // how one is killed; nullptr: KillProgramOf (node_entry.h)
  // Set when one of the signals below gives the exit status; nullptr: nobody asks.
  bool* interrupted = nullptr;
};

// The exit status of programs that had not ended in time, as of timeout(1).
inline constexpr int kTimedOut = 124;

// How one of them ended.
struct ProgramEnd {
  pid_t pid = 0;                         // of StartedProgram
  int status = 0;                        // exit status, 128 + signal
  absl::Time at = absl::InfinitePast();  // MonotonicNow when it was seen
  double cpu_s = 0;                      // of it and of what it waited for
  int64_t peak_bytes = 0;                // the largest process among those
};

// The signals that WaitForPrograms takes; to be blocked before the first program starts. Without
// SIGHUP where it is ignored: nohup has asked that a closed terminal ends nothing.
sigset_t SignalsOfRun();

// Until all have ended. The first that does not end with 0 gives the exit status, and the others
// are told to end (SIGTERM) and killed after the grace. Where the last decides and ends with 0, the
// others have the grace to end by themselves; then they are told.
// SIGTERM, SIGHUP, SIGQUIT and SIGINT are passed on, but for those of a terminal, which its whole
// foreground group has already; the grace runs from there, and a second SIGINT kills at once. The
// first of them gives the exit status, 128 + its number, unless a program had failed before: what
// was told to end did not end by itself, whatever its programs make of it. An infinite grace leaves
// SIGINT to the programs. SIGINT and SIGQUIT of a terminal are nothing where they are ignored, as a
// shell ignores them for what it runs in the background.
// `ends` gets each, in the order they ended.
int WaitForPrograms(std::vector<StartedProgram> programs, const EndingRules& rules,
                    std::vector<ProgramEnd>* ends = nullptr);

}  // namespace longhaul
