// The commands of longhaul that need no torch, as a program of their own for the tests.
#include <CLI/CLI.hpp>

#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{"longhaul net and longhaul doctor"};
  app.require_subcommand(1);
  int exit_status = 0;
  longhaul::AddDoctorCommand(app, &exit_status);
  longhaul::AddNetCommand(app, &exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return exit_status;
}
