#pragma once

#include <optional>

#include "experiments/spec/spec.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// The pipeline that memory is planned for; nullopt: there is none, or it is so large that making it
// would take longer than the answer is worth.
std::optional<PipelineProgram> SmallProgram(const RunSpec& spec);

// The most micro-batches that a stage has live; a bound where there is no small program.
double MicrobatchesKept(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                        int stage);

}  // namespace longhaul
