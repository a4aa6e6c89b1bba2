#include "experiments/command/command.h"

int main(int argc, char** argv) {
  CLI::App app{
      "longhaul runs pipeline-parallel DiLoCo over shaped links on one box and measures what each "
      "compressed stage boundary costs."};
  app.require_subcommand(1);
  app.set_version_flag("--version", LONGHAUL_VERSION);
  app.footer(
      "New here: docs/tutorial.md, your first question in twenty minutes. Which command for which "
      "question: README.md.");
  int exit_status = 0;
  std::vector<std::string> program;
  longhaul::AddDoctorCommand(app, &exit_status);
  longhaul::AddNetCommand(app, &program, &exit_status);
  longhaul::AddRunCommand(app, &exit_status);
  longhaul::AddLaunchCommand(app, &program, &exit_status);
  longhaul::AddMeasureCommand(app, &exit_status);
  longhaul::AddMergeCommand(app, &exit_status);
  longhaul::AddIngestCommand(app, &exit_status);
  longhaul::AddFrameBytesCommand(app, &exit_status);
  longhaul::AddReaderCommands(app, &exit_status);
  longhaul::AddPriceCommand(app, &exit_status);
  longhaul::AddClockCommand(app, {{"scale", longhaul::AnswerScale}, {"plan", longhaul::AnswerPlan}},
                            &exit_status);
  longhaul::AddScheduleCommand(app, &exit_status);
  longhaul::AddCodecsCommand(app, &exit_status);
  longhaul::AddSpecCommand(app, &exit_status);
  longhaul::AddWeightsCommand(app, &exit_status);
  longhaul::AddWorkerCommand(app, &exit_status);
  longhaul::AddCompletionCommand(app, &exit_status);
  return longhaul::RunCommandLine(app, argc, argv, &program, &exit_status);
}
