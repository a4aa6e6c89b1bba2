#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/numbers.h"
#include "experiments/command/command.h"
#include "experiments/run/compare_runs.h"

namespace longhaul {
namespace {

struct CompareArguments {
  std::string results, a, b;
};

// A run's number, "last", or an arm's name: the newest run of that arm that ended ok.
absl::StatusOr<int64_t> FindRun(const Record& record, const std::string& name) {
  int64_t run = 0;
  if (absl::SimpleAtoi(name, &run)) return run;
  absl::StatusOr<std::vector<std::vector<std::string>>> rows =
      record.Rows("SELECT arm, status, id FROM runs ORDER BY id DESC");
  if (!rows.ok()) return rows.status();
  std::set<std::string> arms;
  for (size_t i = 1; i < rows->size(); ++i) {
    const std::vector<std::string>& row = (*rows)[i];
    arms.insert(row[0]);
    const bool found = name == "last" || (row[0] == name && row[1] == "ok");
    if (found && absl::SimpleAtoi(row[2], &run)) return run;
  }
  return absl::InvalidArgumentError(
      fmt::format("no run '{}' in {}: want a run's number, 'last', or an arm with a run that ended "
                  "ok; arms there: {}",
                  name, record.folder(), fmt::join(arms, ", ")));
}

absl::Status Compare(const CompareArguments& arguments, int* exit_status) {
  absl::StatusOr<Record> record = Record::Open(arguments.results, Record::Mode::kRead);
  if (!record.ok()) return record.status();
  absl::StatusOr<int64_t> a = FindRun(*record, arguments.a);
  if (!a.ok()) return a.status();
  absl::StatusOr<int64_t> b = FindRun(*record, arguments.b);
  if (!b.ok()) return b.status();
  absl::StatusOr<RunComparison> comparison = CompareRuns(*record, *a, *b);
  if (!comparison.ok()) return comparison.status();
  fmt::print("{}\n", comparison->text);
  *exit_status = comparison->equal ? 0 : 1;
  return absl::OkStatus();
}

}  // namespace

void AddCompareCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "are two runs of one record bit-identical? Exit status 1 when they are not");
  command->add_option("results", arguments->results, "folder of the record")->required();
  command->add_option("a", arguments->a, "a run's number, 'last', or an arm's name")->required();
  command->add_option("b", arguments->b, "the run to compare it with")->required();
  command->callback([arguments, exit_status] {
    if (absl::Status s = Compare(*arguments, exit_status); !s.ok()) *exit_status = Fail(s);
  });
}

}  // namespace longhaul
