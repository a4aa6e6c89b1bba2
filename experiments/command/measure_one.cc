#include "experiments/command/measure_one.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/report/listing.h"
#include "experiments/report/result_json.h"
#include "experiments/run/check_first.h"
#include "experiments/run/core_needs.h"
#include "experiments/run/follow_run.h"
#include "experiments/run/run_place.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

// A run of one process writes a checkpoint when it is asked to stop, also where its plan has none;
// what is trained is the plan's either way.
RunSpec WithCheckpoints(RunSpec spec) {
  if (spec.program) return spec;
  if (spec.checkpoint.every_steps == 0 && spec.net.transport == "loopback") {
    spec.checkpoint.every_steps = Steps(spec);
  }
  return spec;
}

}  // namespace

absl::Status ListPlannedRuns(const CampaignSpec& campaign, CommandOutput& out) {
  nlohmann::ordered_json document = {{"schema", "longhaul.plan/1"},
                                     {"name", campaign.name},
                                     {"runs", nlohmann::ordered_json::array()}};
  for (size_t id = 0; id < campaign.runs.size(); ++id) {
    const PlannedRun& run = campaign.runs[id];
    const int64_t tokens = TrainTokens(run.spec), cores = CoresNeeded(run.spec);
    document["runs"].push_back(
        {{"id", id}, {"arm", run.arm}, {"seed", run.seed}, {"tokens", tokens}, {"cores", cores}});
    if (!out.json()) {
      fmt::print("{}\t{}\t{}\t{}\t{}\n", id, run.arm, run.seed, tokens, cores);
    }
  }
  if (out.json()) out.Document(document.dump(2) + "\n");
  return absl::OkStatus();
}

absl::Status MeasureOneRun(const CampaignSpec& campaign, const ExperimentRow& experiment,
                           int64_t id, const std::string& records, CommandOutput& out) {
  if (id < 0 || id >= static_cast<int64_t>(campaign.runs.size())) {
    return absl::OutOfRangeError(
        fmt::format("--run {}: the plan has runs 0 to {} (--list)", id, campaign.runs.size() - 1));
  }
  const PlannedRun& planned = campaign.runs[static_cast<size_t>(id)];
  const RunSpec spec = WithCheckpoints(planned.spec);
  if (absl::Status s = CheckFirst(spec); !s.ok()) return s;
  const std::string folder = fmt::format("{}/{:04}", records, id);
  absl::StatusOr<Record> record = Record::Open(folder, Record::Mode::kWrite);
  if (!record.ok()) return record.status();
  if (const auto settled = record->SettleDeadRuns(); !settled.ok()) return settled.status();
  const absl::StatusOr<int64_t> row = record->BeginExperiment(experiment);
  if (!row.ok()) return row.status();
  const auto experiments = record->Experiments();
  if (!experiments.ok()) return experiments.status();
  if (experiments->size() != 1) {
    return absl::FailedPreconditionError(fmt::format(
        "{} has runs of another plan: name other --records for a plan that changed", folder));
  }
  const absl::StatusOr<Claim> claim = record->LookUpClaim(*row, planned.arm, planned.seed);
  if (!claim.ok()) return claim.status();
  if (claim->outcome == Claim::Outcome::kElsewhere) {
    return absl::UnavailableError(fmt::format("run {} is at work: {}", id, claim->who));
  }
  if (claim->outcome == Claim::Outcome::kFinished) {
    fmt::print(out.progress(), "run {} ('{}', seed {}) has ended before\n", id, planned.arm,
               planned.seed);
    return absl::OkStatus();
  }
  CancelSignal cancel;
  const bool resumable = spec.checkpoint.every_steps > 0;
  absl::StatusOr<RunPlace> place = PlaceRun(*record, PlannedRow(planned, *row), spec, resumable);
  if (!place.ok()) return place.status();
  fmt::print(out.progress(), "run {} of {}: '{}', seed {}, in {}/{}\n", id, campaign.name,
             planned.arm, planned.seed, folder, kRecordFile);
  for (const std::string& line : place->notices) fmt::print(out.progress(), "{}\n", line);
  std::fflush(out.progress());
  RunRecorder recorder(*record, place->run, planned.spec);
  RunView view(spec, out.progress(), MonotonicClock());
  const absl::Status outcome =
      FollowRun(spec, place->checkpoints ? place->checkpoints->path() : "", cancel, recorder, view);
  // A loss that diverged is an outcome of the plan.
  if (absl::IsOutOfRange(outcome)) {
    fmt::print(out.progress(), "{}\n", std::string(outcome.message()));
    return absl::OkStatus();
  }
  return outcome;
}

}  // namespace longhaul
