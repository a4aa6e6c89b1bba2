#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/topology/topology.h"

namespace longhaul {

// What `net run` starts: a program in a node.
struct NodeProgram {
  size_t node;
  std::vector<std::string> argv;
};

// `only` is the node that was named before the program; "": the program runs in every node. With a
// node, words of the form `--node NODE --` begin the program of another one.
// InvalidArgument: no program; NotFound: no such node.
absl::StatusOr<std::vector<NodeProgram>> ProgramsOf(const Topology& topology,
                                                    const std::string& only,
                                                    const std::vector<std::string>& words);

// A process that waits for a program and passes signals on to it.
struct StartedProgram {
  pid_t pid;
  std::string name;  // "iperf3 in b"; for messages
};

struct EndingRules {
  absl::Duration grace = absl::Seconds(5);  // until what was told to end is killed
  bool last_decides = false;  // the run is over when the last program has ended, as a client has
};

// The signals that WaitForPrograms takes; to be blocked before the first program starts.
sigset_t SignalsOfRun();

// Until all have ended. The first that does not end with 0 gives the exit status, and the others
// are told to end (SIGTERM) and killed after the grace. Where the last decides and ends with 0, the
// others have the grace to end by themselves; then they are told.
// SIGTERM, SIGHUP, SIGQUIT and SIGINT are passed on, but for those of a terminal, which its whole
// foreground group has already; the grace runs from there, and a second SIGINT kills at once. An
// infinite grace leaves SIGINT to the programs.
int WaitForPrograms(std::vector<StartedProgram> programs, const EndingRules& rules);

}  // namespace longhaul
