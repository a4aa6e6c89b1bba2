#include <vector>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/report/report.h"
#include "experiments/report/report_compare.h"
#include "experiments/run/machine_check.h"
#include "experiments/run/reader.h"

namespace longhaul {
namespace {

struct ReportArguments {
  std::string results;
  std::vector<std::string> compared;  // two folders, or none
  ReportOptions options;
};

absl::Status Report(const std::string& results, const ReportOptions& options) {
  absl::StatusOr<Record> record = Record::Open(results, Record::Mode::kRead);
  if (!record.ok()) return record.status();
  absl::StatusOr<std::string> page = WriteReport(*record, options);
  if (!page.ok()) return page.status();
  fmt::print("report: {}\n", *page);
  return absl::OkStatus();
}

absl::Status Compare(const std::vector<std::string>& folders, const ReportOptions& options) {
  absl::StatusOr<Record> a = Record::Open(folders[0], Record::Mode::kRead);
  if (!a.ok()) return a.status();
  absl::StatusOr<Record> b = Record::Open(folders[1], Record::Mode::kRead);
  if (!b.ok()) return b.status();
  const absl::StatusOr<RecordComparison> comparison = CompareRecords(*a, *b);
  if (!comparison.ok()) return comparison.status();
  const absl::StatusOr<std::string> page = WriteComparison(
      *comparison, options.python, options.out.empty() ? folders[1] + "/compare" : options.out);
  if (!page.ok()) return page.status();
  fmt::print("{}report: {}\n", ComparisonText(*comparison), *page);
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<ReportArguments>();
  arguments->options.python = ReaderPython();
  CLI::App* command = app.add_subcommand(
      "report",
      "a self-contained HTML page with figures, CSV beside it; reads only the record. With "
      "--compare: two records beside each other, every difference with its interval");
  CLI::Option* results = command->add_option("results", arguments->results, "folder of the record");
  CLI::Option* compared =
      command
          ->add_option(
              "--compare", arguments->compared,
              "folders A and B of two records: estimates, settings, machines, final losses")
          ->expected(2)
          ->type_name("A B")
          ->excludes(results);
  command->add_option("--out", arguments->options.out,
                      "folder to write into (default: RESULTS/report; B/compare)");
  command->add_option("--python", arguments->options.python,
                      "interpreter that has matplotlib (default: the build's)");
  command->callback([arguments, results, compared, exit_status] {
    if (results->count() + compared->count() == 0) {
      throw CLI::RequiredError("results, or --compare A B,");
    }
    const absl::Status status = arguments->compared.empty()
                                    ? Report(arguments->results, arguments->options)
                                    : Compare(arguments->compared, arguments->options);
    *exit_status = Fail(status);
  });
}

}  // namespace longhaul
