#include <fmt/format.h>

#include "compressors/survey.h"
#include "experiments/command/command.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

absl::Status PrintCatalogue(const std::vector<std::string>& names) {
  SurveyOptions options;
  options.names = names;
  options.now_s = [] { return absl::ToDoubleSeconds(MonotonicClock().Now()); };
  absl::StatusOr<std::vector<CodecSurvey>> surveys = SurveyCodecs(options);
  if (!surveys.ok()) return surveys.status();
  fmt::print("{}", FormatSurvey(*surveys, options.isa));
  return absl::OkStatus();
}

}  // namespace

void AddCodecsCommand(CLI::App& app, int* exit_status) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(
      "codecs", "the catalogue: measured bits per element, error and speed on this machine");
  command->add_option("names", *names, "only these codecs (default: all)");
  command->callback([names, exit_status] {
    const absl::Status status = PrintCatalogue(*names);
    *exit_status = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace longhaul
