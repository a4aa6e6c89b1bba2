#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compressors/tensor.h"
#include "experiments/spec/spec.h"
#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// What boundaries take of a rank's memory, for PlanResources (memory_plan.h). Bytes.

// One frame of a codec; what it remembers of one tensor.
double FrameBytes(const std::string& codec, double rows, double cols, DType dtype);
double CodecStateBytes(const std::string& codec, double rows, double cols);

// Samples of which a codec keeps what it sent (aqsgd*), at each end of a boundary of one group: most of
// all groups, at the end of the run. 0: no codec does.
double SamplesRemembered(const RunSpec& spec);

struct BoundaryBytes {
  double tensors = 0;  // that cross
  double frames = 0;   // on their way, and what codecs remember of each micro-batch or sample
};
// Of the boundaries beside a stage. `samples`: as above.
BoundaryBytes BoundariesOf(const RunSpec& spec, const std::vector<int>& rank_of_stage,
                           double samples, const StageLayout& layout);

// The pipeline that memory is planned for; nullopt: there is none, or it is so large that making it
// would take longer than the answer is worth.
std::optional<PipelineProgram> SmallProgram(const RunSpec& spec);

// The most micro-batches that a stage has live; a bound where there is no small program.
double MicrobatchesKept(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                        int stage);

}  // namespace longhaul
