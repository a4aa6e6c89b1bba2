#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/lab_control/lab_daemon.h"
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

// What a child does before it enters its node, and is told there.
struct NodeStart {
  bool keeps_input = true;                              // our standard input; else an empty one
  std::map<std::string, std::string> environment = {};  // these replace the caller's
  std::function<absl::Status()> before = {};            // in the child; an error ends it
};

// A process that enters a node of the lab that is up and waits there for the program. It dies with
// its caller. `mask`: signals blocked in it and in the program.
absl::StatusOr<pid_t> StartInNode(const LabStore& store, const LabSpec& spec,
                                  const NodeProgram& program, const NodeStart& start,
                                  const sigset_t& mask);

// How one of them ended.
struct ProgramEnd {
  pid_t pid = 0;                         // of StartedProgram
  int status = 0;                        // exit status, 128 + signal
  absl::Time at = absl::InfinitePast();  // MonotonicNow when it was seen
  double cpu_s = 0;                      // of it and of what it waited for
  int64_t peak_bytes = 0;                // the largest process among those
};

// The signals that WaitForPrograms takes; to be blocked before the first program starts.
sigset_t SignalsOfRun();

// Until all have ended. The first that does not end with 0 gives the exit status, and the others
// are told to end (SIGTERM) and killed after the grace. Where the last decides and ends with 0, the
// others have the grace to end by themselves; then they are told.
// SIGTERM, SIGHUP, SIGQUIT and SIGINT are passed on, but for those of a terminal, which its whole
// foreground group has already; the grace runs from there, and a second SIGINT kills at once. An
// infinite grace leaves SIGINT to the programs.
// `ends` gets each, in the order they ended.
int WaitForPrograms(std::vector<StartedProgram> programs, const EndingRules& rules,
                    std::vector<ProgramEnd>* ends = nullptr);

}  // namespace longhaul
