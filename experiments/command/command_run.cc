#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/estimates/step_time_summary.h"
#include "experiments/record/sha256.h"
#include "experiments/report/listing.h"
#include "experiments/report/result_json.h"
#include "experiments/run/follow_run.h"
#include "experiments/spec/known_names.h"
#include "pp_group/checkpoint.h"

namespace longhaul {
namespace {

struct RunArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string results;
  std::string arm;
  bool resume = false;
  OutputOptions output;
};

// One folder per resolved spec, so that a run finds its own checkpoints and no other's. A run that
// does not resume starts without.
absl::StatusOr<std::string> CheckpointFolder(const RunSpec& spec, const std::string& results,
                                             bool resume) {
  if (spec.checkpoint.every_steps == 0) {
    if (!resume) return std::string();
    return absl::InvalidArgumentError(
        "--resume: this spec writes no checkpoints; set checkpoint.every_steps");
  }
  const std::string folder = results + "/checkpoints/" + Sha256Hex(ToToml(spec)).substr(0, 16);
  std::error_code error;
  if (!resume) std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("make the checkpoint folder '{}': {}", folder, error.message()));
  }
  return std::filesystem::absolute(folder).string();
}

// A run that was killed may have written a checkpoint whose steps never reached the record. Removes
// it, so that the run goes on from one that the record has caught up with, and no step is missing.
absl::Status DropUnrecordedCheckpoints(const Record& record, int64_t run, const RunSpec& spec,
                                       const std::string& folder) {
  const absl::StatusOr<std::vector<StepRow>> rows = record.Steps(run);
  if (!rows.ok()) return rows.status();
  std::map<std::pair<int64_t, int64_t>, int64_t> last;  // by group and stage
  for (const StepRow& row : *rows) {
    int64_t& step = last[{row.group_index, row.stage}];
    step = std::max(step, row.step);
  }
  int64_t recorded = std::numeric_limits<int64_t>::max();
  for (int64_t group = 0; group < spec.outer.groups; ++group) {
    for (int64_t stage = 0; stage < spec.schedule.stages; ++stage) {
      recorded = std::min(recorded, last[{group, stage}]);
    }
  }
  for (int64_t group = 0; group < spec.outer.groups; ++group) {
    for (int64_t stage = 0; stage < spec.schedule.stages; ++stage) {
      for (int64_t step :
           CheckpointSteps(folder, static_cast<int>(group), static_cast<int>(stage))) {
        if (step > recorded)
          std::filesystem::remove(
              CheckpointPath(folder, static_cast<int>(group), static_cast<int>(stage), step));
      }
    }
  }
  return absl::OkStatus();
}

// With --resume: the newest run of this resolved spec that died or was interrupted, taken over.
// Otherwise a new one.
absl::StatusOr<int64_t> BeginOrResume(Record& record, const RunRow& row, const RunSpec& spec,
                                      const std::string& checkpoints, bool resume) {
  if (resume) {
    absl::StatusOr<std::vector<RunRow>> runs = record.Runs(row.experiment_id);
    if (!runs.ok()) return runs.status();
    for (auto run = runs->rbegin(); run != runs->rend(); ++run) {
      const bool open = run->status == RunStatus::kInterrupted || run->status == RunStatus::kDied;
      if (!open || run->spec_toml != row.spec_toml) continue;
      absl::Status s = record.ResumeRun(run->id);
      if (s.ok()) s = DropUnrecordedCheckpoints(record, run->id, spec, checkpoints);
      if (!s.ok()) return s;
      return run->id;
    }
  }
  return record.BeginRun(row);
}

// What stands at the end: the summary, one line with --quiet, a document with --json. Returns
// `outcome` unless what was recorded can't be read.
absl::Status ShowResult(const Record& record, int64_t run, const RunSpec& spec,
                        const absl::Status& outcome, CommandOutput& out) {
  if (out.json()) out.Document(RunJson(record, run, outcome));
  if (out.json() || !outcome.ok()) return outcome;
  absl::StatusOr<std::string> text =
      out.quiet() ? RunLine(record, run) : StepTimeSummary(record, run, spec);
  if (!text.ok()) return text.status();
  fmt::print("{}", *text);
  return absl::OkStatus();
}

absl::Status RunAndRecord(const RunArguments& arguments, CommandOutput& out) {
  absl::StatusOr<RunSpec> spec = LoadRunSpec(arguments.spec, arguments.sets, CatalogNames());
  if (!spec.ok()) return spec.status();
  const std::string name = std::filesystem::path(arguments.spec).stem();
  const std::string results = arguments.results.empty() ? "results/" + name : arguments.results;
  absl::StatusOr<Record> record = Record::Open(results, Record::Mode::kWrite);
  if (!record.ok()) return record.status();
  if (absl::StatusOr<int> settled = record->SettleDeadRuns(); !settled.ok()) {
    return settled.status();
  }
  absl::StatusOr<std::string> checkpoints = CheckpointFolder(*spec, results, arguments.resume);
  if (!checkpoints.ok()) return checkpoints.status();
  absl::StatusOr<int64_t> experiment =
      record->BeginExperiment({.kind = ExperimentKind::kRun, .name = name});
  if (!experiment.ok()) return experiment.status();
  const std::string arm = arguments.arm.empty() ? name : arguments.arm;
  absl::StatusOr<int64_t> run = BeginOrResume(*record, NewRunRow(*spec, *experiment, arm), *spec,
                                              *checkpoints, arguments.resume);
  if (!run.ok()) return run.status();

  fmt::print(out.progress(), "{}\nrun {} of {}/{}\n", ToToml(*spec), *run, results, kRecordFile);
  std::fflush(out.progress());
  CancelSignal cancel;
  RunRecorder recorder(*record, *run, *spec);
  RunView view(*spec, out.progress(), MonotonicClock());
  const absl::Status outcome = FollowRun(*spec, *checkpoints, cancel, recorder, view);
  return ShowResult(*record, *run, *spec, outcome, out);
}

}  // namespace

void AddRunCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand(
      "run", "one run: workers, shaped links (or one process), live progress, a record");
  command->add_option("spec", arguments->spec, "the run's TOML file")->required();
  command->add_option("--set", arguments->sets, "override, e.g. --set boundary.forward=none")
      ->take_all();
  command->add_option("--results", arguments->results,
                      "folder of the record (default: results/<name of the spec>)");
  command->add_option("--arm", arguments->arm,
                      "name of this configuration in the record (default: the spec's)");
  command->add_flag("--resume", arguments->resume,
                    "go on from the last checkpoint of the same resolved spec");
  AddOutputOptions(*command, arguments->output);
  command->callback([arguments, exit_status] {
    CommandOutput out(arguments->output);
    *exit_status = out.Finish("longhaul.run/1", RunAndRecord(*arguments, out));
  });
}

}  // namespace longhaul
