#include "experiments/command/net_programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "experiments/command/command.h"
#include "netem/kernel/posix.h"
#include "netem/lab_control/node_entry.h"

namespace longhaul {
namespace {

absl::StatusOr<size_t> NodeNamed(const Topology& topology, const std::string& name) {
  std::string known;
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    if (topology.nodes[i].name == name) return i;
    known += " " + topology.nodes[i].name;
  }
  return absl::NotFoundError(fmt::format("--node: no node '{}'; nodes:{}", name, known));
}

// Reads nothing, in place of our standard input.
absl::Status TakeNoInput() {
  const Fd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (empty.ok() && dup2(empty.get(), STDIN_FILENO) == STDIN_FILENO) return absl::OkStatus();
  return ErrnoStatus("give a program an empty standard input", errno);
}

}  // namespace

absl::StatusOr<pid_t> StartInNode(const LabStore& store, const LabSpec& spec,
                                  const NodeProgram& program, const NodeStart& start,
                                  const sigset_t& mask) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus("start a program: fork", errno);
  if (child > 0) return child;
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  absl::Status ready = start.keeps_input ? absl::OkStatus() : TakeNoInput();
  if (ready.ok() && start.before) ready = start.before();
  if (!ready.ok()) _exit(Fail(ready));
  for (const auto& [name, value] : start.environment) setenv(name.c_str(), value.c_str(), 1);
  const auto status =
      RunInNode(store, spec.name, spec.topology.nodes[program.node].name, program.argv);
  const int exit_status = status.ok() ? *status : Fail(status.status());
  fflush(stdout);
  _exit(exit_status);
}

absl::StatusOr<std::vector<NodeProgram>> ProgramsOf(const Topology& topology,
                                                    const std::string& only,
                                                    const std::vector<std::string>& words) {
  std::vector<NodeProgram> programs;
  if (only.empty()) {
    for (size_t i = 0; i < topology.nodes.size(); ++i) programs.push_back({i, words});
  }
  std::string node = only;
  for (size_t at = 0; !node.empty();) {
    const auto index = NodeNamed(topology, node);
    if (!index.ok()) return index.status();
    programs.push_back({*index, {}});
    node.clear();
    for (; at < words.size() && node.empty(); ++at) {
      if (words[at] == "--node" && at + 2 < words.size() && words[at + 2] == "--") {
        node = words[at + 1];
        at += 2;
      } else {
        programs.back().argv.push_back(words[at]);
      }
    }
  }
  for (const NodeProgram& program : programs) {
    if (!program.argv.empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("net run LINKS -- CMD: no CMD for node {}", topology.nodes[program.node].name));
  }
  return programs;
}

}  // namespace longhaul
