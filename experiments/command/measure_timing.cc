#include "experiments/command/measure_timing.h"

#include <fmt/format.h>

#include "experiments/command/measure_progress.h"
#include "experiments/estimates/timing_findings.h"
#include "experiments/report/result_json.h"
#include "experiments/run/check_first.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/timing_grid.h"
#include "experiments/train/spec_files.h"

namespace longhaul {
namespace {

absl::StatusOr<TimingGrid> LoadTimingGrid(const TimingArguments& arguments) {
  absl::StatusOr<TomlValue> root = ReadTomlFile(arguments.spec);
  if (!root.ok()) return root.status();
  for (const std::string& set : arguments.sets) {
    if (absl::Status s = SetByPath(*root, set); !s.ok()) return s;
  }
  return ReadTimingGrid(*root, CatalogNames());
}

absl::Status CheckCells(const TimingGrid& grid) {
  for (const PlannedRun& run : grid.runs) {
    if (run.seed != 1) break;
    if (absl::Status s = CheckFirst(run.spec); !s.ok()) {
      return absl::Status(s.code(),
                          fmt::format("cell '{}': {}", run.arm, std::string(s.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureTiming(const TimingArguments& arguments, CommandOutput& out) {
  absl::StatusOr<TimingGrid> grid = LoadTimingGrid(arguments);
  if (!grid.ok()) return grid.status();
  if (absl::Status s = CheckCells(*grid); !s.ok()) return s;
  if (absl::Status s = PinFiles(grid->runs); !s.ok()) return s;
  const std::string results =
      arguments.results.empty() ? "results/" + grid->name : arguments.results;
  absl::StatusOr<Record> record = Record::Open(results, Record::Mode::kWrite);
  if (!record.ok()) return record.status();
  if (const auto settled = record->SettleDeadRuns(); !settled.ok()) return settled.status();
  const absl::StatusOr<int64_t> experiment = record->BeginExperiment(
      {.kind = ExperimentKind::kRun,
       .name = grid->name,
       .question = grid->question,
       .plan_text = PlanText(*grid),
       .facts = {{kNamedFilesFact, ContentsText(FilesOfPlan(grid->runs))}}});
  if (!experiment.ok()) return experiment.status();
  PoolLimits limits = LimitsOf(arguments.jobs);
  limits.invalid_is_outcome = true;
  const absl::Status ran = TrainTheRest(*record, *experiment, grid->runs, limits, out.progress());
  if (absl::IsCancelled(ran)) return ran;
  // A cell whose links failed is told in its row; the others stand.
  const absl::StatusOr<TimingFindings> findings = AnalyseTiming(*record, *experiment);
  if (!findings.ok()) return findings.status();
  if (out.json()) {
    out.Document(TimingJson(*record, *experiment, *findings, ran));
  } else {
    fmt::print("\n{}\nrecord: {}/{}   report: longhaul report {}\n", TextOf(TimingTable(*findings)),
               results, kRecordFile, results);
  }
  return ran;
}

}  // namespace longhaul
