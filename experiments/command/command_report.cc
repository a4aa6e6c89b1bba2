#include <vector>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/report/report.h"
#include "experiments/report/report_compare.h"
#include "experiments/report/report_law.h"
#include "experiments/run/machine_check.h"

namespace longhaul {
namespace {

struct ReportArguments {
  std::string results;
  std::vector<std::string> compared;   // two folders, or none
  std::vector<std::string> law, aims;  // folders of its cells, or none; "N:D"
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

absl::Status Law(const ReportArguments& arguments) {
  std::vector<PriceCell> cells;
  for (const std::string& folder : arguments.law) {
    absl::StatusOr<Record> record = Record::Open(folder, Record::Mode::kRead);
    if (!record.ok()) return record.status();
    absl::StatusOr<PriceCell> cell = ReadPriceCell(*record, cells.size());
    if (!cell.ok()) return cell.status();
    cells.push_back(*std::move(cell));
  }
  std::vector<LawAim> aims;
  for (const std::string& text : arguments.aims) {
    const absl::StatusOr<LawAim> aim = ReadLawAim(text);
    if (!aim.ok()) return aim.status();
    aims.push_back(*aim);
  }
  const absl::StatusOr<LawReport> report = MakeLawReport(std::move(cells), std::move(aims));
  if (!report.ok()) return report.status();
  fmt::print("{}", LawText(*report));
  if (arguments.options.out.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> undrawn =
      WriteLaw(*report, arguments.options.python, arguments.options.out);
  if (!undrawn.ok()) return undrawn.status();
  if (!undrawn->empty()) fmt::print("no figure: {}\n", *undrawn);
  fmt::print("\nlaw: {}/law.csv\n", arguments.options.out);
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<ReportArguments>();
  arguments->options.python = PlotPython();
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
  CLI::Option* law =
      command
          ->add_option("--law", arguments->law,
                       "folders of campaigns that differ in size or tokens: how the price of "
                       "crossings goes with them, token transfer against loss transfer")
          ->excludes(results)
          ->excludes(compared);
  command
      ->add_option("--at", arguments->aims,
                   "with --law: a model to foretell, PARAMETERS:TOKENS; may be repeated")
      ->needs(law);
  command->add_option("--out", arguments->options.out,
                      "folder to write into (default: RESULTS/report; B/compare; none for --law)");
  command->add_option("--python", arguments->options.python,
                      "interpreter that has matplotlib (default: the build's)");
  command->callback([arguments, results, compared, law, exit_status] {
    if (results->count() + compared->count() + law->count() == 0) {
      throw CLI::RequiredError("results, or --compare A B, or --law A B ...,");
    }
    const absl::Status status = law->count() > 0 ? Law(*arguments)
                                : arguments->compared.empty()
                                    ? Report(arguments->results, arguments->options)
                                    : Compare(arguments->compared, arguments->options);
    *exit_status = Fail(status);
  });
}

}  // namespace longhaul
