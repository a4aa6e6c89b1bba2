#include "experiments/run/run_place.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/numbers/sha256.h"
#include "experiments/record/file_contents.h"
#include "experiments/record/record.h"
#include "experiments/spec/plans_of_spec.h"

namespace longhaul {
namespace {

// Rows of a step in the record: one of each stage.
int64_t StepRows(const RunSpec& spec) { return spec.stages() * spec.outer.groups; }

std::string OwnerText(int64_t run, const RunRow& row, const Record& record) {
  return fmt::format("run {} (arm '{}') of {}, process {} on {} since {},", run, row.arm,
                     std::filesystem::absolute(record.folder()).lexically_normal().string(),
                     getpid(), row.host, UtcNow());
}

// Of one arm and one resolved spec: two arms never share checkpoints, even of equal specs.
std::string FolderOf(const Record& record, const RunRow& row) {
  return record.folder() + "/checkpoints/" +
         Sha256Hex(row.arm + "\n" + row.spec_toml).substr(0, 16);
}

// Nothing is left to train. An invalid run may have been stopped before its end.
absl::StatusOr<bool> HasEnded(const Record& record, const RunRow& run, const RunSpec& spec) {
  switch (run.status) {
    case RunStatus::kOk:
    case RunStatus::kPartial:
    case RunStatus::kDiverged:
      return true;
    case RunStatus::kInvalid: {
      ASSIGN_OR_RETURN(StepCoverage steps, record.Coverage(run.id, 1, Steps(spec)));
      return steps.last == Steps(spec);
    }
    default:
      return false;
  }
}

// The run that owns the folder, as this record knows it; or the newest of this arm and spec.
absl::StatusOr<std::optional<RunRow>> FindEarlier(const Record& record, const RunRow& row,
                                                  const std::optional<CheckpointFolder>& folder) {
  if (folder && folder->owner()) {
    ASSIGN_OR_RETURN(std::optional<int64_t> run,
                     record.RunWithFact(kIdentityFact, folder->owner()->identity));
    if (!run) return std::optional<RunRow>();
    ASSIGN_OR_RETURN(RunRow owner, record.Run(*run));
    return std::optional<RunRow>(std::move(owner));
  }
  if (folder && !folder->AnySteps().empty()) return std::optional<RunRow>();  // nobody knows whose
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, record.Runs(row.experiment_id));
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->arm == row.arm && run->spec_toml == row.spec_toml) return std::optional<RunRow>(*run);
  }
  return std::optional<RunRow>();
}

absl::Status Refuse(const std::string& whose, const std::string& folder, bool alive) {
  if (alive) {
    return absl::UnavailableError(fmt::format(
        "{}: wait for its end, or give this run an --arm or --results of its own", whose));
  }
  return absl::FailedPreconditionError(
      fmt::format("{} left checkpoints in {}: go on from them with --resume, or start anew under "
                  "another --arm or --results (or remove that folder)",
                  whose, folder));
}

// A new row, which owns the folder from now on.
absl::Status Begin(Record& record, RunRow row, RunPlace& place) {
  if (place.checkpoints) row.facts[kIdentityFact] = NewIdentity();
  ASSIGN_OR_RETURN(int64_t run, record.BeginRun(row));
  place.run = run;
  if (!place.checkpoints) return absl::OkStatus();
  absl::Status owned = place.checkpoints->SetOwner(
      {.identity = row.facts[kIdentityFact], .text = OwnerText(run, row, record)});
  if (!owned.ok()) {
    (void)record.FinishRun(run, RunStatus::kFailed, std::string(owned.message()));
  }
  return owned;
}

// Where groups come and go: every round from the first step's up to the checkpoint, and the
// checkpoint's step of every rank; where it ended a round, of those that were members: who joined
// then has a checkpoint of the step and no row.
absl::StatusOr<bool> RoundsRecorded(const Record& record, const RunRow& run, const RunSpec& spec,
                                    int64_t first, int64_t step) {
  ASSIGN_OR_RETURN(std::vector<RoundRow> rounds, record.RowsOf<RoundRow>(run.id));
  int64_t there = 0, rows = StepRows(spec);
  for (const RoundRow& round : rounds) {
    there += round.last_step <= step;
    if (round.last_step == step) rows = round.member_count() * spec.schedule.stages;
  }
  ASSIGN_OR_RETURN(StepCoverage last, record.Coverage(run.id, step, step));
  const OuterPlan plan = OuterPlanOf(spec);
  return there == plan.RoundsBy(step) - plan.RoundsBy(first - 1) && last.rows == rows;
}

// True: the record has every step up to the checkpoint, and what the crossings had counted then.
absl::StatusOr<bool> Recorded(const Record& record, const RunRow& run, const RunSpec& spec,
                              int64_t step) {
  int64_t first = std::atoll(FactOf(run.facts, kRestoredStepFact).c_str()) + 1;
  if (const std::string partial = FactOf(run.facts, kPartialFromFact); !partial.empty()) {
    first = std::atoll(partial.c_str());
    if (step == first - 1) return true;  // where it began
  }
  ASSIGN_OR_RETURN(StepCoverage steps, record.Coverage(run.id, first, step));
  if (spec.outer.on_group_loss == "continue") {
    absl::StatusOr<bool> whole = RoundsRecorded(record, run, spec, first, step);
    if (!whole.ok() || !*whole) return whole;
  } else if (steps.rows != (step - first + 1) * StepRows(spec)) {
    return false;
  }
  if (spec.workers() == 1) return true;  // nothing crosses
  ASSIGN_OR_RETURN(std::vector<CrossingRow> crossings, record.CheckpointCrossings(run.id, step));
  return !crossings.empty();
}

absl::Status DropUnrecorded(const Record& record, const RunRow& run, const RunSpec& spec,
                            RunPlace& place) {
  for (const int64_t step : place.checkpoints->AnySteps()) {
    ASSIGN_OR_RETURN(bool recorded, Recorded(record, run, spec, step));
    if (recorded) continue;
    RETURN_IF_ERROR(place.checkpoints->Remove(step));
    place.notices.push_back(fmt::format(
        "the checkpoint of step {} is removed: the record has not all that came before it", step));
  }
  return absl::OkStatus();
}

// A run is of one content of its files from its first step to its last.
absl::Status CheckSameFiles(const RunRow& earlier, const RunRow& row) {
  const std::string conflict = ContentConflict(ReadContents(FactOf(earlier.facts, kNamedFilesFact)),
                                               ReadContents(FactOf(row.facts, kNamedFilesFact)));
  if (conflict.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("run {} ({}) began with another content of {}; put the files back, or start anew "
                  "under another --arm or --results",
                  earlier.id, ToString(earlier.status), conflict));
}

// Links that an earlier part found out of bounds still make the run's times no evidence.
absl::Status KeepEarlierLinks(Record& record, int64_t run) {
  ASSIGN_OR_RETURN(std::vector<LinkRow> links, record.RowsOf<LinkRow>(run));
  for (const LinkRow& link : links) {
    if (link.ok) continue;
    return record.AddFacts(run, {{kEarlierLinksFact, fmt::format("link {} > {}: {}", link.src_node,
                                                                 link.dst_node, link.why)}});
  }
  return absl::OkStatus();
}

absl::Status TakeOver(Record& record, const RunRow& earlier, const RunRow& row, const RunSpec& spec,
                      RunPlace& place) {
  RETURN_IF_ERROR(record.ResumeRun(earlier.id));
  place.run = earlier.id;
  absl::Status s = DropUnrecorded(record, earlier, spec, place);
  if (s.ok()) s = KeepEarlierLinks(record, earlier.id);
  if (s.ok() && earlier.git_revision != row.git_revision) {
    s = record.AddFacts(earlier.id, {{"resumed_by_git_revision", row.git_revision}});
  }
  if (s.ok() && FactOf(earlier.facts, kHashFact) != kHashesOfTwoKinds &&
      !SameHashes(earlier, row)) {
    s = record.AddFacts(earlier.id, {{kHashFact, kHashesOfTwoKinds}});
    place.notices.push_back(fmt::format(
        "run {} has parameter hashes of another kind so far: those from here on say nothing of them, "
        "and `compare` leaves them out; its losses and states are as before",
        earlier.id));
  }
  const std::string identity = FactOf(earlier.facts, kIdentityFact);
  if (s.ok() && !identity.empty()) {
    s = place.checkpoints->SetOwner(
        {.identity = identity, .text = OwnerText(earlier.id, row, record)});
  }
  if (!s.ok()) {
    (void)record.FinishRun(earlier.id, RunStatus::kFailed, std::string(s.message()));
    return s;
  }
  const std::vector<int64_t> steps =
      place.checkpoints->CommonSteps(spec.schedule.stages, spec.outer.groups);
  place.notices.push_back(fmt::format("run {} ({}) goes on after step {} of {}", earlier.id,
                                      ToString(earlier.status), steps.empty() ? 0 : steps.back(),
                                      Steps(spec)));
  return absl::OkStatus();
}

absl::StatusOr<RunPlace> Resume(Record& record, const RunRow& row, const RunSpec& spec,
                                RunPlace place) {
  ASSIGN_OR_RETURN(std::optional<RunRow> earlier, FindEarlier(record, row, place.checkpoints));
  if (earlier) {
    RETURN_IF_ERROR(CheckSameFiles(*earlier, row));
    ASSIGN_OR_RETURN(bool ended, HasEnded(record, *earlier, spec));
    if (ended) {
      place.run = earlier->id;
      place.finished = true;
      place.status = earlier->status;
      place.notices.push_back(fmt::format("run {} has finished: {}{}{}", place.run,
                                          ToString(place.status),
                                          earlier->reason.empty() ? "" : ", ", earlier->reason));
      return place;
    }
  }
  if (!place.checkpoints) {
    return absl::InvalidArgumentError(
        "--resume: this spec writes no checkpoints; set checkpoint.every_steps");
  }
  if (earlier) {
    RETURN_IF_ERROR(TakeOver(record, *earlier, row, spec, place));
    return place;
  }
  RunRow fresh = row;
  const std::vector<int64_t> steps =
      place.checkpoints->CommonSteps(spec.schedule.stages, spec.outer.groups);
  if (steps.empty()) {
    place.notices.push_back(
        "nothing to resume: no unfinished run of this arm and spec; it starts at step 1");
  } else {
    fresh.facts[kPartialFromFact] = std::to_string(steps.back() + 1);
    place.notices.push_back(
        fmt::format("the checkpoints in {} are of a run that this record does not have: this run "
                    "will be partial, steps {} to {}",
                    place.checkpoints->path(), steps.back() + 1, Steps(spec)));
  }
  RETURN_IF_ERROR(Begin(record, std::move(fresh), place));
  return place;
}

absl::StatusOr<RunPlace> StartAnew(Record& record, const RunRow& row, const RunSpec& spec,
                                   RunPlace place) {
  if (place.checkpoints && !place.checkpoints->AnySteps().empty()) {
    ASSIGN_OR_RETURN(std::optional<RunRow> earlier, FindEarlier(record, row, place.checkpoints));
    const std::string& folder = place.checkpoints->path();
    if (!earlier) return Refuse("a run that this record does not have", folder, false);
    ASSIGN_OR_RETURN(bool ended, HasEnded(record, *earlier, spec));
    const std::string whose = fmt::format("run {} ({})", earlier->id, ToString(earlier->status));
    if (!ended) return Refuse(whose, folder, false);
    RETURN_IF_ERROR(place.checkpoints->RemoveAll());
    place.notices.push_back(
        fmt::format("the checkpoints of {}, which has ended, make room in {}", whose, folder));
  }
  RETURN_IF_ERROR(Begin(record, row, place));
  return place;
}

}  // namespace

absl::StatusOr<RunPlace> ClaimRun(Record& record, const RunRow& row, const RunSpec& spec,
                                  bool resume) {
  RunPlace place;
  if (spec.checkpoint.every_steps > 0) {
    absl::StatusOr<CheckpointFolder> folder = CheckpointFolder::Hold(FolderOf(record, row));
    if (absl::IsUnavailable(folder.status())) {
      return Refuse(std::string(folder.status().message()), "", true);
    }
    if (!folder.ok()) return folder.status();
    place.checkpoints = *std::move(folder);
  }
  return resume ? Resume(record, row, spec, std::move(place))
                : StartAnew(record, row, spec, std::move(place));
}

std::string HowToResume(const RunPlace& place, const RunSpec& spec, const absl::Status& failure) {
  // Outcomes: diverged, partial, invalid; or what was asked for, which a second run asks for too.
  if (failure.ok() || absl::IsOutOfRange(failure) || absl::IsDataLoss(failure) ||
      absl::IsFailedPrecondition(failure) || absl::IsInvalidArgument(failure)) {
    return "";
  }
  if (!place.checkpoints) return "; the next start is from step 1: this spec writes no checkpoints";
  const std::optional<int64_t> whole =
      place.checkpoints->NewestWholeStep(spec.schedule.stages, spec.outer.groups);
  const bool damaged =
      !whole && !place.checkpoints->CommonSteps(spec.schedule.stages, spec.outer.groups).empty();
  if (damaged) {
    return fmt::format(
        "; no checkpoint in {} can be read whole: remove that folder and run the same command "
        "without --resume, or start anew under another --arm or --results",
        place.checkpoints->path());
  }
  return fmt::format("; the same command with --resume goes on after step {} of {}",
                     whole.value_or(0), Steps(spec));
}

}  // namespace longhaul
