#include <fmt/format.h>

#include <cstdlib>

#include "experiments/command/command.h"
#include "experiments/command/command_net.h"
#include "netem/lab_control/node_entry.h"

namespace longhaul {
namespace {

int Exec(const std::string& where, const std::vector<std::string>& argv) {
  auto name = ParseNodeName(where);
  if (!name.ok()) return Fail(name.status());
  auto store = LabStore::Open();
  if (!store.ok()) return Fail(store.status());
  auto status = RunInNode(*store, name->lab, name->node, argv);
  return status.ok() ? *status : Fail(status.status());
}

}  // namespace

void AddNetNodeCommands(CLI::App& net, const std::vector<std::string>* program, int* exit_status) {
  auto where = std::make_shared<std::string>();
  CLI::App* exec = net.add_subcommand("exec", "run a program in a node: exec LAB/NODE -- CMD...");
  exec->add_option("node", *where, "LAB/NODE, then the program and its arguments")->required();
  exec->callback([where, program, exit_status] {
    *exit_status = program->empty()
                       ? Fail(absl::InvalidArgumentError("exec LAB/NODE -- CMD: no CMD"))
                       : Exec(*where, *program);
  });

  auto shell_where = std::make_shared<std::string>();
  CLI::App* shell = net.add_subcommand("shell", "a shell in a node");
  shell->add_option("node", *shell_where, "LAB/NODE")->required();
  shell->callback([shell_where, exit_status] {
    const char* program = getenv("SHELL");
    *exit_status = Exec(*shell_where, {program == nullptr ? "/bin/sh" : program});
  });
}

}  // namespace longhaul
