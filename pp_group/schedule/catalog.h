#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// The schedules by name. Letters: S stages, one on each rank here, M micro-batches.
//
// Bytes on the wire per micro-batch of B/M rows, for all of them: 2(S-1) tensors of (B/M) * T * D
// elements, each at the bits per element of its kind's codec (32 for "none").

// All forwards, then all backwards, both in micro-batch order.
//   bubble fraction  (S-1)/(M+S-1), forward and backward of equal cost on every stage
//   peak activations M micro-batches on every stage
Program GPipe(int stage, int num_stages, int num_microbatches);

// One forward, one backward (PipeDream-flush): min(S-1-s, M) forwards of warm-up, then forward and
// backward in turn, then the remaining backwards.
//   bubble fraction  (S-1)/(M+S-1), as GPipe: the gain is memory, not time
//   peak activations min(S-s, M) micro-batches on stage s
Program OneForwardOneBackward(int stage, int num_stages, int num_microbatches);

// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): 1F1B with the backward pass split.
// The stage before waits for I alone, and W fills what would be a bubble: stage s runs its W s
// micro-batches behind its I.
//   bubble fraction   (S-1)/(3M+S-1) with F, I and W of equal cost; 1F1B: 3(S-1)/(3M+3(S-1))
//   peak activations  min(S, M) micro-batches on every stage: 1F1B's largest
// A stage that cannot split its backward pass runs all of it as I, and gains nothing.
Program ZeroBubbleH1(int stage, int num_stages, int num_microbatches);

// One line of the table of schedules in catalog.cc.
struct Schedule {
  std::string_view name;
  Program (*program)(int stage, int num_stages, int num_microbatches);
  int (*peak_activations)(int stage, int num_stages, int num_microbatches);  // bound, micro-batches
};

// InvalidArgument: unknown name; the message lists the known ones.
absl::StatusOr<Schedule> FindSchedule(std::string_view name);
std::vector<std::string> ScheduleNames();

// The program of a whole pipeline, stage s on rank s; check.h proves that it runs.
PipelineProgram ProgramOf(const Schedule& schedule, int num_stages, int num_microbatches);

}  // namespace longhaul
