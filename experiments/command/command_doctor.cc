#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/run/machine_check.h"

namespace longhaul {
namespace {

int Print(const std::vector<MachineCheck>& checks) {
  for (const MachineCheck& check : checks) {
    fmt::print("{:<9} {}{}{}\n", check.subject, check.ok ? "" : "MISSING: ", check.found,
               check.remedy.empty() ? "" : "; to do: " + check.remedy);
  }
  return 0;
}

// For scripts: status 0 when links can be shaped here; else one line that says why not.
int LabOnly() {
  const MachineCheck lab = CheckLab();
  fmt::print("{}\n", lab.ok ? lab.found : lab.found + "; to do: " + lab.remedy);
  return lab.ok ? 0 : 1;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int* exit_status) {
  auto lab_only = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "doctor", "what this machine can do, and what to do about what is missing");
  command->add_flag("--lab", *lab_only, "only whether links can be shaped; exit status 1 if not");
  command->callback(
      [lab_only, exit_status] { *exit_status = *lab_only ? LabOnly() : Print(CheckMachine()); });
}

}  // namespace longhaul
