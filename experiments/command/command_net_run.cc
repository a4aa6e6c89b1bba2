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
#include "experiments/command/net_programs.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/node_entry.h"
#include "netem/topology/figure_text.h"

namespace longhaul {
namespace {

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

// Reads nothing, in place of our standard input.
absl::Status TakeNoInput() {
  const Fd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (empty.ok() && dup2(empty.get(), STDIN_FILENO) == STDIN_FILENO) return absl::OkStatus();
  return ErrnoStatus("net run: give a program an empty standard input", errno);
}

// A process that enters the node and waits there for the program. Its standard input is ours in the
// first program and empty in the others.
absl::StatusOr<pid_t> StartIn(const LabStore& store, const LabSpec& spec,
                              const NodeProgram& program, bool first, const sigset_t& mask) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoStatus("net run: fork", errno);
  if (child > 0) return child;
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  if (auto s = first ? absl::OkStatus() : TakeNoInput(); !s.ok()) _exit(Fail(s));
  SetEnvironment(spec.topology, program.node);
  const auto status =
      RunInNode(store, spec.name, spec.topology.nodes[program.node].name, program.argv);
  const int exit_status = status.ok() ? *status : Fail(status.status());
  fflush(stdout);
  _exit(exit_status);
}

struct RunOptions {
  std::shared_ptr<LinkOptions> links = std::make_shared<LinkOptions>();
  std::string node;
  std::string grace = "5s";
};

absl::StatusOr<EndingRules> RulesOf(const RunOptions& options, size_t programs) {
  EndingRules rules{.last_decides = !options.node.empty() && programs > 1};
  if (options.grace == "none") {
    rules.grace = absl::InfiniteDuration();
    return rules;
  }
  const auto grace = ReadTime("grace", options.grace);
  if (!grace.ok()) return grace.status();
  if (*grace < absl::ZeroDuration()) return absl::InvalidArgumentError("--grace: want 0 or more");
  rules.grace = *grace;
  return rules;
}

absl::StatusOr<int> RunLab(const RunOptions& options, const std::vector<std::string>& words) {
  if (words.empty()) return absl::InvalidArgumentError("net run LINKS -- CMD: no CMD");
  auto spec = LabOf(*options.links);
  if (!spec.ok()) return spec.status();
  spec->name = fmt::format("run-{}", getpid());
  spec->with_caller = true;
  const auto programs = ProgramsOf(spec->topology, options.node, words);
  if (!programs.ok()) return programs.status();
  const auto rules = RulesOf(options, programs->size());
  if (!rules.ok()) return rules.status();
  auto store = LabStore::Open();
  if (!store.ok()) return store.status();
  if (auto s = StartLabDaemon(*store, *spec); !s.ok()) return s;
  // Waited for from here on. Before, one of them ends us, and the lab with us.
  const sigset_t signals = SignalsOfRun();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &signals, &before);
  std::vector<StartedProgram> running;
  absl::Status started;
  for (const NodeProgram& program : *programs) {
    auto pid = StartIn(*store, *spec, program, running.empty(), before);
    started = pid.status();
    if (!started.ok()) break;
    running.push_back(
        {*pid, fmt::format("{} in {}", program.argv[0], spec->topology.nodes[program.node].name)});
  }
  if (!started.ok()) {
    for (const StartedProgram& program : running) KillProgramOf(program.pid);
  }
  const int status = WaitForPrograms(std::move(running), *rules);
  if (auto s = TakeDown(*store, spec->name); !s.ok()) return s;
  if (!started.ok()) return started;
  return status;
}

}  // namespace

void AddNetRunCommand(CLI::App& net, const std::vector<std::string>* program, int* exit_status) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = net.add_subcommand(
      "run", "run LINKS -- CMD...: a lab, CMD in every node of it, and nothing left afterwards");
  AddLinkOptions(*run, options->links);
  run->add_option("--node", options->node,
                  "CMD in this node alone; another `--node NODE -- CMD...` may follow it, and the "
                  "last one's end is the run's");
  run->add_option("--grace", options->grace,
                  "until what was told to end, or interrupted, is killed: 5s, or none");
  run->callback([options, program, exit_status] {
    auto status = RunLab(*options, *program);
    *exit_status = status.ok() ? *status : Fail(status.status());
  });
}

}  // namespace longhaul
