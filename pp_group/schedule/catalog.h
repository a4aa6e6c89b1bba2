#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// What a schedule is made for. A rank holds `chunks` stages: S = P * chunks.
struct PipelineShape {
  int ranks;         // P
  int chunks = 1;    // stages of a rank
  int microbatches;  // M
  int depth = 1;     // of 1f1b-deep alone: more micro-batches in flight for each boundary

  int stages() const { return ranks * chunks; }
};

// One line of the table of schedules in catalog.cc.
struct Schedule {
  std::string_view name;
  int least_chunks, most_chunks;  // stages of a rank that it is made for
  int (*rank_of_stage)(int stage, const PipelineShape& shape);
  Program (*program)(int rank, const PipelineShape& shape);
  // What PeakActivations counts at most; of zb-v less where M < 2 P. Of a pipeline without a flush what a
  // rank has from the steps that follow, too.
  int (*peak_activations)(int rank, const PipelineShape& shape);
  // What else it asks of a shape, as "wants ..."; "": it takes this one. Null: it takes all.
  std::string (*refusal)(const PipelineShape& shape);
  // PipelineProgram::ahead of a stage. Null: the pipeline is flushed behind each step.
  int (*ahead)(int stage, const PipelineShape& shape);
  std::string_view what, source;  // for people: a sentence, and where it is from
};

// InvalidArgument: unknown name; the message lists the known ones.
absl::StatusOr<Schedule> FindSchedule(std::string_view name);
std::vector<std::string> ScheduleNames();
// Those that flush: they train the same weights, bit for bit.
std::vector<std::string> FlushedScheduleNames();

// What a run has beside a schedule that does not flush.
struct BesideNoFlush {
  bool tied_head = false;  // over several stages
  bool spread_experts = false, outer_overlaps = false, elastic_groups = false;
  bool injected_compute = false, real_links = false;
};
// Which of it cannot be, as "is never flushed: ..."; "": nothing.
std::string RefusalWithoutFlush(const BesideNoFlush& beside);

// InvalidArgument, with both numbers: chunks or micro-batches that the schedule is not made for.
absl::Status CheckShape(const Schedule& schedule, const PipelineShape& shape);

// The program of a whole pipeline, of a shape that CheckShape took; check.h proves that it runs.
PipelineProgram ProgramOf(const Schedule& schedule, const PipelineShape& shape);
// With as few stages a rank as the schedule is made for.
PipelineProgram ProgramOf(const Schedule& schedule, int num_ranks, int num_microbatches);

}  // namespace longhaul
