#include <cstdio>

#include "experiments/command/command.h"
#include "experiments/run/cancel_signal.h"

namespace longhaul {

int Fail(const absl::Status& status) {
  const std::string message(status.message());
  std::fprintf(stderr, "longhaul: %s\n", message.c_str());
  return absl::IsCancelled(status) ? kExitCancelled : 1;
}

}  // namespace longhaul

int main(int argc, char** argv) {
  CLI::App app{
      "longhaul runs pipeline-parallel DiLoCo over shaped links on one box and measures what each "
      "compressed stage boundary costs."};
  app.require_subcommand(1);
  app.set_version_flag("--version", LONGHAUL_VERSION);
  int exit_status = 0;
  longhaul::AddDoctorCommand(app, &exit_status);
  longhaul::AddRunCommand(app, &exit_status);
  longhaul::AddMeasureCommand(app, &exit_status);
  longhaul::AddReportCommand(app, &exit_status);
  longhaul::AddCompareCommand(app, &exit_status);
  longhaul::AddCodecsCommand(app, &exit_status);
  longhaul::AddWorkerCommand(app, &exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    return status == 0 ? 0 : 2;
  }
  return exit_status;
}
