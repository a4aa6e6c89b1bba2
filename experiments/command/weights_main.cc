// `longhaul-weights`: what `longhaul weights` starts. It maps no torch.
#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{"Share and fetch folders of weights in a closed swarm"};
  app.require_subcommand(1);
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddWeightsCommand(app, &exit_status);
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}
