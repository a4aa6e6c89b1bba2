#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/link_time.h"
#include "pp_group/schedule/makespan.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// Predicted step times of a pipeline. Pure arithmetic: no clock, no network. Letters: P ranks, S
// stages, M micro-batches; stage s sends forward to s + 1 and backward to s - 1, where that is on
// another rank.

// Measured costs of one stage, seconds per micro-batch.
struct StageCost {
  double forward_s = 0;  // compute alone
  double backward_s = 0;
  // Of backward_s, what a schedule that splits the pass may put off (W); 0: the stage does not split.
  double weight_gradient_s = 0;
  // Of its rank: per sent message, on the transport's thread, before it enters the link; per received
  // message, before it can be used.
  double encode_s = 0, decode_s = 0;
  double optimizer_s = 0;  // per step
  // Per step, of its rank's thread: rows, hashing parameters, handing over. Those of a rank's stages
  // add up.
  double other_s = 0;
};

struct Pipeline {
  std::string_view schedule;           // a name of ScheduleNames(), where there is no `program`
  int microbatches;                    // M
  std::vector<StageCost> stages;       // S
  std::vector<BoundaryLink> forward;   // S - 1: s -> s + 1
  std::vector<BoundaryLink> backward;  // S - 1: s + 1 -> s
  // Of a tied head: 0 -> S - 1 and back, a message a step, which both wait for before they update.
  struct Tied {
    BoundaryLink to_last, to_first;
  };
  std::optional<Tied> tied = std::nullopt;
  // What the ranks do, where it is not a named schedule's of one stage a rank.
  std::optional<PipelineProgram> program = std::nullopt;
};

// P2, event recursion: an action starts when its stage is free and its input has arrived; a link is
// busy for 8 kappa b / R per message, which arrives one delay after that. Consecutive steps follow
// without a barrier, so the answer is the period of the steady state. Order of actions, messages
// and recursion are pp_group/schedule's. InvalidArgument: an unknown schedule, or one that gets
// stuck.
absl::StatusOr<double> PredictStepSeconds(const Pipeline& pipeline);

// The costs as pp_group/schedule takes them.
PipelineCosts CostsOf(const Pipeline& pipeline, const PipelineProgram& program,
                      Wires wires = Wires::kFullDuplex);

// P3, one wire a receiver: what a rank is sent over both of its boundaries follows one another,
// and the delay holds the wire: arrives = max(last arrival, sent) + 8 b / R + delay (the rule of
// ProtocolNanoGPT's network model). For comparison, as P1. Errors as PredictStepSeconds.
absl::StatusOr<double> OneWireSeconds(const Pipeline& pipeline);

// P1, the planning simulator's serial slots, which know no tied head: (M + P - 1) (t_c + (t_x + RTT) (1 + 0.05 log2 P)) with
// the slowest rank and boundary, communication inside every slot, S/P times where ranks have several
// stages. Reported, never accepted.
double SerialSlotSeconds(const Pipeline& pipeline);

}  // namespace longhaul
