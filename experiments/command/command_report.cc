#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/report/report.h"
#include "experiments/run/machine_check.h"

namespace longhaul {
namespace {

absl::Status Report(const std::string& results, const ReportOptions& options) {
  absl::StatusOr<Record> record = Record::Open(results, Record::Mode::kRead);
  if (!record.ok()) return record.status();
  absl::StatusOr<std::string> page = WriteReport(*record, options);
  if (!page.ok()) return page.status();
  fmt::print("report: {}\n", *page);
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, int* exit_status) {
  auto results = std::make_shared<std::string>();
  auto options = std::make_shared<ReportOptions>();
  options->python = PlotPython();
  CLI::App* command = app.add_subcommand(
      "report", "a self-contained HTML page with figures, CSV beside it; reads only the record");
  command->add_option("results", *results, "folder of the record")->required();
  command->add_option("--out", options->out, "folder to write into (default: RESULTS/report)");
  command->add_option("--python", options->python,
                      "interpreter that has matplotlib (default: the build's)");
  command->callback([results, options, exit_status] {
    const absl::Status status = Report(*results, *options);
    *exit_status = status.ok() ? 0 : Fail(status);
  });
}

}  // namespace longhaul
