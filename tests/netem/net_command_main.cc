// `longhaul net` as a program of its own, for tests of builds without torch.
#include <CLI/CLI.hpp>

#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{"longhaul net"};
  app.require_subcommand(1);
  int exit_status = 0;
  longhaul::AddNetCommand(app, &exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return exit_status;
}
