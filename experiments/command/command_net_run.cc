// `net run`: a lab, a program in every node of it, and nothing left when they have ended.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "experiments/command/net_programs.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/node_entry.h"
#include "netem/topology/figure_text.h"

namespace longhaul {
namespace {

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
  ASSIGN_OR_RETURN(auto spec, LabOf(*options.links));
  spec.name = fmt::format("run-{}", getpid());
  spec.with_caller = true;
  ASSIGN_OR_RETURN(const auto programs, ProgramsOf(spec.topology, options.node, words));
  ASSIGN_OR_RETURN(const auto rules, RulesOf(options, programs.size()));
  ASSIGN_OR_RETURN(auto store, LabStore::Open());
  RETURN_IF_ERROR(StartLabDaemon(store, spec));
  fmt::print(stderr, "{}", MissingPathsText(spec.topology));
  const std::vector<std::string> nodes = NamesOf(spec.topology);
  ReportReplaced(JobEnvironment(nodes, programs.front().node, kMasterPort));
  // Waited for from here on. Before, one of them ends us, and the lab with us.
  const sigset_t signals = SignalsOfRun();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &signals, &before);
  std::vector<StartedProgram> running;
  absl::Status started;
  for (const NodeProgram& program : programs) {
    const NodeStart start{.keeps_input = running.empty(),
                          .environment = JobEnvironment(nodes, program.node, kMasterPort)};
    auto pid = StartInNode(store, spec, program, start, before);
    started = pid.status();
    if (!started.ok()) break;
    running.push_back(
        {*pid, fmt::format("{} in {}", program.argv[0], spec.topology.nodes[program.node].name)});
  }
  if (!started.ok()) {
    for (const StartedProgram& program : running) KillProgramOf(program.pid);
  }
  const int status = WaitForPrograms(std::move(running), rules);
  RETURN_IF_ERROR(TakeDown(store, spec.name));
  if (!started.ok()) return started;
  return status;
}

}  // namespace

void AddNetRunCommand(CLI::App& net, const std::vector<std::string>* program, int* exit_status) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = net.add_subcommand(
      "run", "Build a lab, run a program in its nodes, and remove everything afterwards");
  run->footer(
      "Examples:\n"
      "  longhaul net run continental-us -- hostname\n"
      "  longhaul net run regional --node a -- iperf3 -s -1 --node b -- iperf3 -c a");
  AddLinkOptions(*run, options->links);
  run->add_option(
      "--node", options->node,
      "Run CMD in this node only; more `--node NODE -- CMD...` may follow, and the exit "
      "of the last CMD ends the run");
  run->add_option("--grace", options->grace, "Time between SIGTERM and SIGKILL, or none")
      ->capture_default_str();
  run->callback([options, program, exit_status] {
    auto status = RunLab(*options, *program);
    *exit_status = status.ok() ? *status : Fail(status.status());
  });
}

namespace {

// What replaces the caller's environment in one program of a lab that is up. The caller may be part
// of a job in it, whose place stays: MASTER_ADDR is then one of its nodes.
absl::StatusOr<EnvironmentChanges> EnvironmentIn(const LabStore& store, const NodeName& where) {
  if (!CallerHasPlace()) return NodeEnvironment();
  const auto info = AskLab(store, where.lab, {{"do", "info"}});
  if (!info.ok()) return info.status();
  const char* const set = getenv("MASTER_ADDR");
  const std::string master = set == nullptr ? "" : set;
  std::vector<std::string> nodes;
  for (const auto& node : info->message.at("nodes")) {
    nodes.push_back(node.value("name", ""));
    if (master == nodes.back() || master == node.value("address", "")) {
      return NodeEnvironment();
    }
  }
  const auto at = std::find(nodes.begin(), nodes.end(), where.node);
  return JobEnvironment(nodes, static_cast<size_t>(at - nodes.begin()), kMasterPort);
}

int Exec(const std::string& where, const std::vector<std::string>& argv) {
  auto name = ParseNodeName(where);
  if (!name.ok()) return Fail(name.status());
  auto store = LabStore::Open();
  if (!store.ok()) return Fail(store.status());
  const auto changes = EnvironmentIn(*store, *name);
  if (!changes.ok()) return Fail(changes.status());
  ReportReplaced(*changes);
  Apply(*changes);
  auto status = RunInNode(*store, name->lab, name->node, argv);
  return status.ok() ? *status : Fail(status.status());
}

}  // namespace

void AddNetNodeCommands(CLI::App& net, const std::vector<std::string>* program, int* exit_status) {
  auto where = std::make_shared<std::string>();
  CLI::App* exec = net.add_subcommand("exec", "Run a program in a node of a lab");
  exec->footer("Example:\n  longhaul net exec demo/a -- ping -c 3 b");
  exec->add_option("node", *where, "Node, as LAB/NODE")->required();
  exec->callback([where, program, exit_status] {
    *exit_status = program->empty()
                       ? Fail(absl::InvalidArgumentError("exec LAB/NODE -- CMD: no CMD"))
                       : Exec(*where, *program);
  });

  auto shell_where = std::make_shared<std::string>();
  CLI::App* shell = net.add_subcommand("shell", "Open a shell in a node of a lab");
  shell->footer("Example:\n  longhaul net shell demo/a");
  shell->add_option("node", *shell_where, "Node, as LAB/NODE")->required();
  shell->callback([shell_where, exit_status] {
    const char* program = getenv("SHELL");
    *exit_status = Exec(*shell_where, {program == nullptr ? "/bin/sh" : program});
  });
}

}  // namespace longhaul
