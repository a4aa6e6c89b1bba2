#include "experiments/run/boundary_memory.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "compressors/catalog.h"
#include "experiments/spec/boundary_policy.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/sample_visits.h"
#include "experiments/train/traffic.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

// What one end of a channel takes beside the codec's state. Measured: a run with both ends in one
// process, 28,000 samples of 64 elements more, grew by 3,670 bytes a sample.
constexpr double kChannelBytes = 1700;

// A program of more actions would take longer to make than the answer is worth.
bool IsLarge(const RunSpec& spec) {
  constexpr double kActions = 1 << 22;
  return 3.0 * static_cast<double>(spec.stages()) * static_cast<double>(spec.train.microbatches) >=
         kActions;
}

}  // namespace

double FrameBytes(const std::string& codec, double rows, double cols, DType dtype) {
  const auto made = MakeCodec(codec);
  // A shape whose product leaves 64 bits is refused by its plain size.
  if (!made.ok() || rows * cols > 1e18) return rows * cols * sizeof(float);
  const Shape shape{static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)};
  return static_cast<double>((*made)->MaxFrameBytes(shape, dtype));
}

// What a codec remembers of one tensor: asked of a part of a large one, and scaled.
double CodecStateBytes(const std::string& codec, double rows, double cols) {
  constexpr double kAsked = 1 << 20;
  const auto made = MakeCodec(codec);
  if (!made.ok()) return 0;
  const double asked_rows = std::clamp(std::floor(kAsked / cols), 1.0, rows);
  const double asked_cols = std::min(cols, kAsked);
  const auto state = (*made)->NewState(
      Shape{static_cast<uint64_t>(asked_rows), static_cast<uint64_t>(asked_cols)});
  if (state == nullptr) return 0;
  return static_cast<double>(state->bytes()) * (rows * cols) / (asked_rows * asked_cols);
}

double SamplesRemembered(const RunSpec& spec) {
  if (SampleBoundaries(spec).empty()) return 0;
  int64_t most = 0;
  for (const SampleVisits& group : VisitsOf(spec)) most = std::max(most, group.first);
  return static_cast<double>(most);
}

BoundaryBytes BoundariesOf(const RunSpec& spec, const std::vector<int>& rank_of_stage,
                           double samples, const StageLayout& layout) {
  const auto microbatches = static_cast<double>(spec.train.microbatches);
  const Shape shape = BoundaryShape(spec);
  const auto tokens = static_cast<double>(shape.rows), columns = static_cast<double>(shape.cols);
  // In a subspace the whole tensors are there, too.
  const double width =
      static_cast<double>(spec.model.width) + (spec.boundary.subspace ? columns : 0);
  const DType dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  // Over links a stage may be far ahead of the wire; in one process a frame is taken at once.
  const double waiting = spec.net.transport == "loopback" ? 1 : microbatches;
  // Both ends in one process have one tensor, and no frame, where values cross as they are.
  const bool shared =
      spec.net.transport == "loopback" && SendsExact(spec) && !spec.boundary.subspace;
  BoundaryBytes bytes;
  for (const int64_t boundary : {layout.stage - 1, layout.stage}) {
    if (boundary < 0 || boundary + 1 >= layout.stages) continue;
    const RunSpec::Boundary::Cut codecs = CodecsOf(spec, boundary);
    // Between two stages of one rank a tensor and its gradient are there once, and nothing is sent.
    const bool crosses = rank_of_stage[static_cast<size_t>(boundary)] !=
                         rank_of_stage[static_cast<size_t>(boundary) + 1];
    bytes.tensors += (crosses && !shared ? 2 : 1) * microbatches * tokens * width *
                     static_cast<double>(BytesPerElement(dtype));
    if (!crosses || shared) continue;
    const bool sends_forward = boundary == layout.stage;
    for (const auto& [codec, sends] :
         {std::pair{codecs.forward, sends_forward}, std::pair{codecs.backward, !sends_forward}}) {
      const bool by_sample = RemembersSamples(codec);
      const double state =
          CodecStateBytes(codec, tokens, columns) + (by_sample ? kChannelBytes : 0);
      bytes.frames += (sends ? waiting : 1) * FrameBytes(codec, tokens, columns, dtype) +
                      (by_sample ? samples : microbatches) * state;
    }
  }
  return bytes;
}

std::optional<PipelineProgram> SmallProgram(const RunSpec& spec) {
  if (IsLarge(spec)) return std::nullopt;
  absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  return program.ok() ? std::optional(*std::move(program)) : std::nullopt;
}

double MicrobatchesKept(const RunSpec& spec, const std::optional<PipelineProgram>& program,
                        int stage) {
  if (program && !program->flushes()) return program->ahead[static_cast<size_t>(stage)] + 1;
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
  const int most = schedule->peak_activations(schedule->rank_of_stage(stage, shape), shape);
  return schedule->ahead == nullptr ? std::min(shape.microbatches, most) : most;
}

}  // namespace longhaul
