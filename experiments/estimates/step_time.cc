#include "experiments/estimates/step_time.h"

#include <algorithm>
#include <cmath>

#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/makespan.h"

namespace longhaul {
namespace {

PipelineCosts CostsOf(const Pipeline& p, Wires wires) {
  PipelineCosts costs;
  for (const StageCost& cost : p.stages) {
    // Where a program splits the backward pass, I is all of it: what stages do that do not split.
    costs.stages.push_back({.forward_s = cost.forward_s,
                            .backward_s = cost.backward_s,
                            .input_gradient_s = cost.backward_s,
                            .weight_gradient_s = 0});
    costs.ranks.push_back({.encode_s = cost.encode_s,
                           .decode_s = cost.decode_s,
                           .step_s = cost.optimizer_s + cost.other_s});
  }
  // P3's rule counts no headers.
  const double factor = wires == Wires::kOneAReceiver ? 8 : 8 * kWireFactor;
  const auto wire = [factor](const BoundaryLink& link) {
    return PipelineCosts::Wire{.busy_s = factor * link.message_bytes / link.rate_bit_per_s,
                               .delay_s = link.one_way_delay_s};
  };
  for (const BoundaryLink& link : p.forward) costs.activations.push_back(wire(link));
  for (const BoundaryLink& link : p.backward) costs.gradients.push_back(wire(link));
  if (p.tied) costs.tied = {wire(p.tied->to_last), wire(p.tied->to_first)};
  return costs;
}

absl::StatusOr<double> Period(const Pipeline& pipeline, Wires wires) {
  const absl::StatusOr<Schedule> schedule = FindSchedule(pipeline.schedule);
  if (!schedule.ok()) return schedule.status();
  return StepPeriod(
      ProgramOf(*schedule, static_cast<int>(pipeline.stages.size()), pipeline.microbatches),
      CostsOf(pipeline, wires), wires);
}

}  // namespace

absl::StatusOr<double> PredictStepSeconds(const Pipeline& pipeline) {
  return Period(pipeline, Wires::kFullDuplex);
}

absl::StatusOr<double> OneWireSeconds(const Pipeline& pipeline) {
  return Period(pipeline, Wires::kOneAReceiver);
}

double SerialSlotSeconds(const Pipeline& pipeline) {
  const double stages = static_cast<double>(pipeline.stages.size());
  double compute_s = 0, transfer_s = 0, rtt_s = 0;
  for (const StageCost& cost : pipeline.stages) {
    compute_s = std::max(compute_s, cost.forward_s + cost.backward_s);
  }
  for (size_t b = 0; b < pipeline.forward.size(); ++b) {
    const BoundaryLink &there = pipeline.forward[b], &back = pipeline.backward[b];
    transfer_s = std::max(transfer_s, 8 * there.message_bytes / there.rate_bit_per_s +
                                          8 * back.message_bytes / back.rate_bit_per_s);
    rtt_s = std::max(rtt_s, there.one_way_delay_s + back.one_way_delay_s);
  }
  const double slots = pipeline.microbatches + stages - 1;
  return slots * (compute_s + (transfer_s + rtt_s) * (1 + 0.05 * std::log2(stages)));
}

double MessageSeconds(const BoundaryLink& link) {
  return 8 * kWireFactor * link.message_bytes / link.rate_bit_per_s + link.one_way_delay_s;
}

}  // namespace longhaul
