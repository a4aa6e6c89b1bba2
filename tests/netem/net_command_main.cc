// `longhaul net` as a program of its own, for tests of builds without torch.
#include <CLI/CLI.hpp>

#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{"longhaul net"};
  app.require_subcommand(1);
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddNetCommand(app, &program, &exit_status);
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}
