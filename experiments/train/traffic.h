#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/tensor.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// Which tensors cross between the ranks of a run, of which shape, how often and in how many bytes:
// the one place for whoever predicts bytes or time. Pipelines' crossings follow from the schedule
// (pp_group/schedule), those between groups and of a tied head from the stages' layouts. Rows that
// go to spread experts are not planned: routers choose them.
struct PlannedCrossing {
  int64_t src_rank, dst_rank;  // group * P + rank of the pipeline
  Direction direction;         // kForward: activations, kBackward: their gradients, kOuter, kTied
  std::string codec;
  Shape
      shape;  // of one tensor: BoundaryShape, [1, N] (what is not spread) between groups, [1, V D] tied
  DType dtype;                       // of the tensor before its codec
  int64_t messages_per_turn;         // in every inner step; kOuter: whenever the groups meet
  int64_t turns;                     // of the training
  std::vector<uint64_t> parts = {};  // kOuter: elements of each frame of a message (FrameParts)
  int64_t fragment = 0;              // kOuter: of several, which have a line each (OuterPlan)
  int64_t stage = 0;                 // kOuter: whose parameters they are
  // Of a codec that remembers samples: of its messages, those of a sample that is new.
  int64_t first_visits = 0;
  int64_t messages() const { return turns * messages_per_turn; }
};

// Of what crosses between two stages: tokens of a micro-batch by D, or by the subspace's dimensions.
Shape BoundaryShape(const RunSpec& spec);

// By direction, then source and destination, then fragment; turns are those after inner step `done`.
// Of one direction between two ranks there are several where they have several boundaries with other
// codecs between them or one behind the other, or several stages to meet in. `switches`: what a
// run with a policy has chosen; without them what CodecsOf says. Errors: PipelineOf's.
absl::StatusOr<std::vector<PlannedCrossing>> PlanCrossings(
    const RunSpec& spec, int64_t done = 0, std::span<const CodecSwitchRow> switches = {});

// The parameters of a stage, as a rank holds them; where experts are spread, all hold as many.
StageLayout LayoutOf(const RunSpec& spec, int64_t stage);
int64_t LargestStage(const RunSpec& spec);  // parameters

// Bytes of one message of this codec and shape, our packet header included: of a Gaussian tensor.
// Most codecs have frames of one size; entropy-coded indices depend a little on the values. Where
// the receiver adds differences, of the second message: the first of a channel is longer. Above 4 M
// elements a part of the tensor is encoded and scaled by the codec's own bound. nullopt: no codec
// of that name, or it refuses the shape.
std::optional<double> MessageBytes(const std::string& codec, Shape shape,
                                   DType dtype = DType::kF32);

// Bytes of one message of a crossing, our packet header included; between groups also those of the
// lengths that go ahead of it, a message of their own; where samples are remembered, the mean over
// first visits (fp16) and later ones. nullopt as above.
std::optional<double> MessageBytes(const PlannedCrossing& crossing);

}  // namespace longhaul
