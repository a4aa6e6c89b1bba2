#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
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

// What replaces the caller's environment in a program; nullopt: the variable is taken away.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

// net0 for libraries that choose an interface by themselves. Taken away: devices of the host, and what
// the launcher of another job (torchrun, mpirun, Slurm) has left in the caller's environment.
EnvironmentChanges NodeEnvironment();

// That, and the place of node `node` among `nodes` in a job of a process a node, as torchrun gives it
// to processes.
EnvironmentChanges JobEnvironment(const std::vector<std::string>& nodes, size_t node, int port);
inline constexpr int kMasterPort = 29500;
std::vector<std::string> NamesOf(const Topology& topology);

// Whether the caller's environment has a place as JobEnvironment gives it: RANK, MASTER_ADDR, ..
bool CallerHasPlace();

void Apply(const EnvironmentChanges& changes);
// Says on stderr which variables of the caller's are replaced: one line, or none.
void ReportReplaced(const EnvironmentChanges& changes);

// What a child does before it enters its node, and is told there.
struct NodeStart {
  bool keeps_input = true;  // our standard input; else an empty one
  EnvironmentChanges environment = {};
  std::function<absl::Status()> before = {};  // in the child; an error ends it
};

// A process that enters a node of the lab that is up and waits there for the program. It dies with
// its caller. `mask`: signals blocked in it and in the program.
absl::StatusOr<pid_t> StartInNode(const LabStore& store, const LabSpec& spec,
                                  const NodeProgram& program, const NodeStart& start,
                                  const sigset_t& mask);

}  // namespace longhaul
