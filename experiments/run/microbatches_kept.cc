#include "experiments/run/microbatches_kept.h"

#include <algorithm>

#include "experiments/spec/pipeline_of_spec.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

// A program of more actions would take longer to make than the answer is worth.
bool IsLarge(const RunSpec& spec) {
  constexpr double kActions = 1 << 22;
  return 3.0 * static_cast<double>(spec.stages()) * static_cast<double>(spec.train.microbatches) >=
         kActions;
}

}  // namespace

std::optional<PipelineProgram> SmallProgram(const RunSpec& spec) {
  if (IsLarge(spec)) return std::nullopt;
  absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  return program.ok() ? std::optional(*std::move(program)) : std::nullopt;
}

double MicrobatchesKept(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                        int stage) {
  if (program) {
    Program own;
    for (const Action& action :
         program->ranks[static_cast<size_t>(program->rank_of_stage[static_cast<size_t>(stage)])]) {
      if (action.stage == stage) own.push_back(action);
    }
    return PeakActivations(own);
  }
  const auto schedule = FindSchedule(spec.schedule.kind);
  if (!schedule.ok()) return static_cast<double>(spec.train.microbatches);
  const PipelineShape shape = ShapeOf(spec);
  return std::min(shape.microbatches,
                  schedule->peak_activations(schedule->rank_of_stage(stage, shape), shape));
}

}  // namespace longhaul
