#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record.h"
#include "experiments/run/checkpoint_folder.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Facts of a run's row.
constexpr char kIdentityFact[] = "identity";  // as in the owner file of its checkpoints
// The first step of a run that went on from checkpoints of a run that its record does not know.
constexpr char kPartialFromFact[] = "partial_from_step";
// What the links of an earlier part of a resumed run were found guilty of.
constexpr char kEarlierLinksFact[] = "links_of_an_earlier_part";

// Where a run stands in its record and on disk before it starts.
struct RunPlace {
  int64_t run = 0;        // its row
  bool finished = false;  // nothing to train: the row has ended, as `status` says
  RunStatus status = RunStatus::kRunning;
  std::optional<CheckpointFolder> checkpoints;  // held while this lives; none: the spec writes none
  std::vector<std::string> notices;             // what a person should know of it, one line each
};

// Begins a run, or (`resume`) takes over the run of the same arm and resolved spec that did not
// come to its end. `row` as from NewRunRow. A folder of checkpoints belongs to one run:
//   Unavailable          a living process is at it
//   FailedPrecondition   without `resume`: the folder holds what an unfinished run can go on from
// each with the two ways on. Checkpoints of a finished run make room, and `notices` says so. A run
// that is taken over goes on from the newest checkpoint that its record has caught up with; newer
// ones are removed, and `notices` says so. InvalidArgument: `resume` of a spec without checkpoints.
absl::StatusOr<RunPlace> ClaimRun(Record& record, const RunRow& row, const RunSpec& spec,
                                  bool resume);

// What to do after `failure` of a run, for the end of its message.
std::string HowToResume(const RunPlace& place, const RunSpec& spec, const absl::Status& failure);

}  // namespace longhaul
