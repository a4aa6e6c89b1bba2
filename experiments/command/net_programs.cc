#include "experiments/command/net_programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "netem/kernel/posix.h"
#include "netem/lab_control/node_entry.h"
#include "netem/nodes/node_setup.h"

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

// A process a node: its number, and how many there are.
constexpr const char* kRanks[] = {"RANK", "GROUP_RANK", "NODE_RANK", "ROLE_RANK"};
constexpr const char* kCounts[] = {"WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"};

// What launchers tell the processes of a job that is not this lab's.
constexpr std::string_view kPrefixesOfLaunchers[] = {"TORCHELASTIC_", "OMPI_COMM_WORLD_", "PMIX_",
                                                     "PMI_"};
constexpr const char* kOfLaunchers[] = {
    "ROLE_NAME",    "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_RDZV_ENDPOINT",
    "NCCL_COMM_ID", "SLURM_PROCID",  "SLURM_LOCALID",   "SLURM_NODEID",    "SLURM_NTASKS"};

}  // namespace

EnvironmentChanges NodeEnvironment() {
  EnvironmentChanges changes = {{"GLOO_SOCKET_IFNAME", kNodeDevice},
                                {"NCCL_SOCKET_IFNAME", kNodeDevice},
                                {"TP_SOCKET_IFNAME", kNodeDevice}};
  if (getenv("LONGHAUL_INTERFACE") != nullptr) changes["LONGHAUL_INTERFACE"] = kNodeDevice;
  for (const char* const name : {"UCX_NET_DEVICES", "NCCL_IB_HCA", "OMPI_MCA_btl_tcp_if_include",
                                 "OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_include",
                                 "OMPI_MCA_oob_tcp_if_exclude"}) {
    if (getenv(name) != nullptr) changes[name] = std::nullopt;
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name(*entry, strcspn(*entry, "="));
    for (const std::string_view prefix : kPrefixesOfLaunchers) {
      if (name.starts_with(prefix)) changes[std::string(name)] = std::nullopt;
    }
  }
  for (const char* const name : kOfLaunchers) {
    if (getenv(name) != nullptr) changes[name] = std::nullopt;
  }
  return changes;
}

EnvironmentChanges JobEnvironment(const std::vector<std::string>& nodes, size_t node, int port) {
  EnvironmentChanges changes = NodeEnvironment();
  const std::string number = fmt::format("{}", node), count = fmt::format("{}", nodes.size());
  for (const char* const name : kRanks) changes[name] = number;
  for (const char* const name : kCounts) changes[name] = count;
  changes["LOCAL_RANK"] = "0";
  changes["LOCAL_WORLD_SIZE"] = "1";
  changes["MASTER_ADDR"] = nodes[0];
  changes["MASTER_PORT"] = fmt::format("{}", port);
  return changes;
}

std::vector<std::string> NamesOf(const Topology& topology) {
  std::vector<std::string> names;
  for (const NodeSpec& node : topology.nodes) names.push_back(node.name);
  return names;
}

bool CallerHasPlace() {
  const EnvironmentChanges of_node = NodeEnvironment();
  const EnvironmentChanges job = JobEnvironment({""}, 0, kMasterPort);
  return std::any_of(job.begin(), job.end(), [&](const auto& one) {
    return getenv(one.first.c_str()) != nullptr && !of_node.contains(one.first);
  });
}

void Apply(const EnvironmentChanges& changes) {
  for (const auto& [name, value] : changes) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
}

void ReportReplaced(const EnvironmentChanges& changes) {
  std::string names;
  for (const auto& [name, value] : changes) {
    const char* const own = getenv(name.c_str());
    if (own != nullptr && value.value_or("") != own) names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty()) return;
  fmt::print(stderr,
             "longhaul: the lab's own values replace {} of your environment; for others, start the "
             "program as `env NAME=VALUE CMD`\n",
             names);
}

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
  Apply(start.environment);
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
    ASSIGN_OR_RETURN(const auto index, NodeNamed(topology, node));
    programs.push_back({index, {}});
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
