// `longhaul-demo`: the commands that `make demo` runs, without what else the engine has to compile.
// `longhaul` starts it where the engine has not been built yet.
#include <fmt/format.h>

#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{"Run the commands that `make demo` builds; `make build` builds every command"};
  app.require_subcommand(1);
  app.set_version_flag("--version", LONGHAUL_VERSION);
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddDoctorCommand(app, &exit_status);
  longhaul::AddNetCommand(app, &program, &exit_status);
  longhaul::AddRunCommand(app, &exit_status);
  longhaul::AddMeasureCommand(app, &exit_status);
  longhaul::AddFrameBytesCommand(app, &exit_status);
  longhaul::AddClockCommand(app, {}, &exit_status);
  longhaul::AddWorkerCommand(app, &exit_status);
  const std::string first = argc > 1 ? argv[1] : "--help";
  const auto is_first = [&](const CLI::App* command) { return command->get_name() == first; };
  if (!first.starts_with("-") && app.get_subcommands(is_first).empty()) {
    std::string built;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      built += (built.empty() ? "" : ", ") + command->get_name();
    }
    fmt::print(stderr,
               "longhaul: '{}' is not among the commands that `make demo` builds ({}); `make "
               "build` builds them all\n",
               first, built);
    return 2;
  }
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}
