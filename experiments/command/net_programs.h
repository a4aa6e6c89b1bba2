#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/launch/started_programs.h"
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

}  // namespace longhaul
