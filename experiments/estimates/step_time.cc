#include "experiments/estimates/step_time.h"

#include <algorithm>
#include <cmath>

#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/makespan.h"

namespace longhaul {
namespace {

absl::StatusOr<PipelineProgram> ProgramOf(const Pipeline& p) {
  if (p.program) return *p.program;
  const absl::StatusOr<Schedule> schedule = FindSchedule(p.schedule);
  if (!schedule.ok()) return schedule.status();
  const PipelineShape shape{.ranks = static_cast<int>(p.stages.size()),
                            .microbatches = p.microbatches};
  if (absl::Status s = CheckShape(*schedule, shape); !s.ok()) return s;
  return ProgramOf(*schedule, shape);
}

absl::StatusOr<double> Period(const Pipeline& pipeline, Wires wires) {
  const absl::StatusOr<PipelineProgram> program = ProgramOf(pipeline);
  if (!program.ok()) return program.status();
  return StepPeriod(*program, CostsOf(pipeline, *program, wires), wires);
}

}  // namespace

PipelineCosts CostsOf(const Pipeline& p, const PipelineProgram& program, Wires wires) {
  PipelineCosts costs;
  costs.ranks.resize(program.ranks.size());
  for (size_t s = 0; s < p.stages.size(); ++s) {
    const StageCost& cost = p.stages[s];
    // A stage that does not split its backward pass runs all of it as I.
    costs.stages.push_back({.forward_s = cost.forward_s,
                            .backward_s = cost.backward_s,
                            .input_gradient_s = cost.backward_s - cost.weight_gradient_s,
                            .weight_gradient_s = cost.weight_gradient_s});
    PipelineCosts::Rank& rank = costs.ranks[static_cast<size_t>(program.rank_of_stage[s])];
    rank.encode_s = cost.encode_s;
    rank.decode_s = cost.decode_s;
    rank.step_s += cost.optimizer_s + cost.other_s;
  }
  const auto wire = [wires](const BoundaryLink& link) {
    PipelineCosts::Wire with_headers = WireOf(link);
    if (wires == Wires::kOneAReceiver) with_headers.busy_s /= kWireFactor;  // its rule has none
    return with_headers;
  };
  for (const BoundaryLink& link : p.forward) costs.activations.push_back(wire(link));
  for (const BoundaryLink& link : p.backward) costs.gradients.push_back(wire(link));
  if (p.tied) costs.tied = {wire(p.tied->to_last), wire(p.tied->to_first)};
  return costs;
}

absl::StatusOr<double> PredictStepSeconds(const Pipeline& pipeline) {
  return Period(pipeline, Wires::kFullDuplex);
}

absl::StatusOr<double> OneWireSeconds(const Pipeline& pipeline) {
  return Period(pipeline, Wires::kOneAReceiver);
}

double SerialSlotSeconds(const Pipeline& pipeline) {
  const size_t stages = pipeline.stages.size();
  std::vector<double> of_ranks(pipeline.program ? pipeline.program->ranks.size() : stages, 0);
  for (size_t s = 0; s < stages; ++s) {
    const StageCost& cost = pipeline.stages[s];
    const size_t rank =
        pipeline.program ? static_cast<size_t>(pipeline.program->rank_of_stage[s]) : s;
    of_ranks[rank] += cost.forward_s + cost.backward_s;
  }
  const auto ranks = static_cast<double>(of_ranks.size());
  const double compute_s = *std::max_element(of_ranks.begin(), of_ranks.end());
  double transfer_s = 0, rtt_s = 0;
  for (size_t b = 0; b < pipeline.forward.size(); ++b) {
    const BoundaryLink &there = pipeline.forward[b], &back = pipeline.backward[b];
    transfer_s = std::max(transfer_s, 8 * there.message_bytes / there.rate_bit_per_s +
                                          8 * back.message_bytes / back.rate_bit_per_s);
    rtt_s = std::max(rtt_s, there.one_way_delay_s + back.one_way_delay_s);
  }
  const double slots = pipeline.microbatches + ranks - 1,
               chunks = static_cast<double>(stages) / ranks;
  return slots * (compute_s + chunks * (transfer_s + rtt_s) * (1 + 0.05 * std::log2(ranks)));
}

}  // namespace longhaul
