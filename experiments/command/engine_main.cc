#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{"Measure what compressed stage boundaries cost when training over slow links"};
  app.require_subcommand(1);
  app.set_version_flag("--version", LONGHAUL_VERSION);
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddRunCommand(app, &exit_status);
  longhaul::AddMeasureCommand(app, &exit_status);
  longhaul::AddPriceCommand(app, &exit_status);
  longhaul::AddLaunchCommand(app, &program, &exit_status);
  longhaul::AddReaderCommands(app, "Results", &exit_status);
  longhaul::AddMergeCommand(app, &exit_status);
  longhaul::AddReaderCommands(app, "Plan", &exit_status);
  longhaul::AddScheduleCommand(app, &exit_status);
  longhaul::AddNetCommand(app, &program, &exit_status);
  longhaul::AddReaderCommands(app, "Data and codecs", &exit_status);
  longhaul::AddCodecsCommand(app, &exit_status);
  longhaul::AddSpecCommand(app, &exit_status);
  longhaul::AddWeightsCommand(app, &exit_status);
  longhaul::AddWorkerCommand(app, &exit_status);
  longhaul::AddIngestCommand(app, &exit_status);
  longhaul::AddDoctorCommand(app, &exit_status);
  longhaul::AddReaderCommands(app, "Setup", &exit_status);
  longhaul::AddFrameBytesCommand(app, &exit_status);
  longhaul::AddExportWeightsCommand(app, &exit_status);
  longhaul::AddClockCommand(app, {{"scale", longhaul::AnswerScale}, {"plan", longhaul::AnswerPlan}},
                            &exit_status);
  longhaul::AddCompletionCommand(app, &exit_status);
  app.footer(
      "Help for a command: longhaul COMMAND --help. Pages: longhaul help; start with longhaul help\n"
      "tutorial. longhaul help index lists commands and pages by task.");
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}
