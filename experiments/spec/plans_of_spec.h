#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {

// The pipeline that a run's spec means, proven: the named schedule of its shape, or the program of
// the file that schedule.csv names. The one place that bytes, memory, predictions and the trainer
// ask. InvalidArgument: a schedule that is not made for this shape, a program of other stages, ranks
// or micro-batches, one that deadlocks (with the actions at which its ranks wait for each other), or
// whose sums come in another order than the micro-batches. NotFound, DataLoss: the file.
absl::StatusOr<PipelineProgram> PipelineOf(const RunSpec& spec);

PipelineShape ShapeOf(const RunSpec& spec);

// What the reader refuses of [schedule] without reading a file: chunks that do not divide the stages,
// a named schedule that is not made for this shape, a kind and a file that say two things. `why` "":
// nothing.
struct RefusedKey {
  std::string key = "kind";
  std::string why = {};
};
RefusedKey RefusedSchedule(const RunSpec& spec);
// Of a spec that has been read whole: what it has that a schedule which never flushes cannot have; "": nothing.
std::string RefusedWithoutFlush(const RunSpec& spec);
// By how many steps each stage's gradients are late on average, "1.5 0.75 0"; "": the pipeline is
// flushed behind each step.
std::string StalenessOf(const RunSpec& spec);

// Which rank of its group holds each stage; stage s is on rank s where PipelineOf refuses.
std::vector<int> RanksOfStages(const RunSpec& spec);

class TableReader;

// When the groups of a run meet over what: whoever counts rounds, exchanges or their bytes asks the
// plan.
OuterPlan OuterPlanOf(const RunSpec& spec);

// Figures of [outer] that the file leaves to its algorithm.
void TakeOuterDefaults(TableReader& r, RunSpec& spec);

// What keys of [outer], and of tables before it, must be to each other.
void CheckOuterTable(TableReader& r, const RunSpec& spec);

}  // namespace longhaul
