// `net run`: a lab, a program in every node of it, and nothing left when they have ended.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/node_entry.h"

namespace longhaul {
namespace {

sigset_t Waited() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGHUP, SIGQUIT, SIGINT}) sigaddset(&signals, signal);
  return signals;
}

// What mpirun and torchrun tell their processes, where the caller has not said otherwise.
void SetEnvironment(const Topology& topology, size_t node) {
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", fmt::format("{}", node)},
      {"WORLD_SIZE", fmt::format("{}", topology.nodes.size())},
      {"LOCAL_RANK", "0"},
      {"MASTER_ADDR", topology.nodes[0].name},
      {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 0);
}

// A process that enters the node and waits there for the program. Its standard input is ours in the
// first node and empty in the others.
absl::StatusOr<pid_t> StartIn(const LabStore& store, const LabSpec& spec, size_t node,
                              const std::vector<std::string>& program, const sigset_t& mask) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus("net run: fork", errno);
  if (child > 0) return child;
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  if (node > 0) {
    const int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (empty >= 0) dup2(empty, STDIN_FILENO);
  }
  SetEnvironment(spec.topology, node);
  const auto status = RunInNode(store, spec.name, spec.topology.nodes[node].name, program);
  const int exit_status = status.ok() ? *status : Fail(status.status());
  fflush(stdout);
  _exit(exit_status);
}

// Until all have ended; the first that does not end with 0 gives the status, and the others are
// told to end.
int WaitForAll(std::vector<pid_t> running) {
  const sigset_t signals = Waited();
  int first_failure = 0;
  const auto tell = [&](int signal) {
    for (const pid_t pid : running) kill(pid, signal);
  };
  while (!running.empty()) {
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (std::erase(running, ended) == 0) continue;  // the lab itself
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0 || first_failure != 0) continue;
      first_failure = code;
      tell(SIGTERM);
    }
    if (running.empty()) break;
    siginfo_t info{};
    const int signal = sigwaitinfo(&signals, &info);
    // A terminal's go to its whole foreground group: the programs have them already.
    if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) tell(signal);
  }
  return first_failure;
}

absl::StatusOr<int> RunLab(const LinkOptions& links, const std::string& only,
                           const std::vector<std::string>& program) {
  if (program.empty()) return absl::InvalidArgumentError("net run LINKS -- CMD: no CMD");
  auto spec = LabOf(links);
  if (!spec.ok()) return spec.status();
  spec->name = fmt::format("run-{}", getpid());
  spec->with_caller = true;
  std::vector<size_t> nodes;
  std::string known;
  for (size_t i = 0; i < spec->topology.nodes.size(); ++i) {
    const std::string& name = spec->topology.nodes[i].name;
    known += " " + name;
    if (only.empty() || name == only) nodes.push_back(i);
  }
  if (nodes.empty()) {
    return absl::NotFoundError(fmt::format("--node: no node '{}'; nodes:{}", only, known));
  }
  auto store = LabStore::Open();
  if (!store.ok()) return store.status();
  if (auto s = StartLabDaemon(*store, *spec); !s.ok()) return s;
  // Waited for from here on. Before, one of them ends us, and the lab with us.
  const sigset_t signals = Waited();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &signals, &before);
  std::vector<pid_t> running;
  absl::Status started;
  for (const size_t node : nodes) {
    auto pid = StartIn(*store, *spec, node, program, before);
    started = pid.status();
    if (!started.ok()) break;
    running.push_back(*pid);
  }
  if (!started.ok()) {
    for (const pid_t pid : running) kill(pid, SIGKILL);
  }
  const int status = WaitForAll(std::move(running));
  if (auto s = TakeDown(*store, spec->name); !s.ok()) return s;
  if (!started.ok()) return started;
  return status;
}

}  // namespace

void AddNetRunCommand(CLI::App& net, const std::vector<std::string>* program, int* exit_status) {
  auto links = std::make_shared<LinkOptions>();
  auto only = std::make_shared<std::string>();
  CLI::App* run = net.add_subcommand(
      "run", "run LINKS -- CMD...: a lab, CMD in every node of it, and nothing left afterwards");
  AddLinkOptions(*run, links);
  run->add_option("--node", *only, "CMD in this node alone");
  run->callback([links, only, program, exit_status] {
    auto status = RunLab(*links, *only, *program);
    *exit_status = status.ok() ? *status : Fail(status.status());
  });
}

}  // namespace longhaul
