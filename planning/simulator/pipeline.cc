#include "planning/simulator/pipeline.h"

#include <algorithm>
#include <cmath>

#include "planning/simulator/efficiency_terms.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

// T_step = (M+S-1) slot; a slot is one micro-batch's compute and its two crossings of a link.
void FillStep(const Scenario& s, double rate, double rtt, Outcome& out) {
  const double stages = static_cast<double>(out.stages);
  const double batches = static_cast<double>(s.micro_batches);
  const BoundaryBits bits = BitsOfStep(s, out);
  out.transfer_time = (bits.forward + bits.backward) / (batches * rate);
  const double share = s.switches.micro_compute == MicroCompute::kPerStage ? stages : 1;
  out.compute_time =
      6 * out.active_parameters * s.step_tokens / (s.peak_flops * s.mfu * share * batches);
  const double link =
      (out.transfer_time + rtt) * StragglerFactor(s.switches.straggler, stages, s.measured);
  const double slot =
      s.switches.boundary_overlap ? std::max(out.compute_time, link) : out.compute_time + link;
  out.step_time = (batches + stages - 1) * slot;
  if (s.measured.step_time_ratio) out.step_time *= *s.measured.step_time_ratio;
  out.bubble = (stages - 1) / (batches + stages - 1);
}

void FillGroups(const Scenario& s, Outcome& out) {
  const bool wan = s.switches.pipeline_links == PipelineLinks::kWan;
  FillStep(s, wan ? std::min(s.wan_up, s.wan_down) : s.regional_rate,
           wan ? s.wan_rtt : s.regional_rtt, out);
  const double per_link = s.switches.stage_parallel_sync
                              ? out.payload_bits / static_cast<double>(out.stages)
                              : out.payload_bits;
  const double groups = static_cast<double>(out.groups);
  out.sync_time = (per_link / s.wan_up + per_link / s.wan_down + s.wan_rtt) *
                  StragglerFactor(s.switches.straggler, groups, s.measured);
  out.inner_steps = s.inner_steps
                        ? *s.inner_steps
                        : std::max<int64_t>(1, GuardedCeil(out.sync_time / out.step_time));
  const double inner = static_cast<double>(out.inner_steps) * out.step_time;
  out.outer_time = s.switches.streaming ? std::max(inner, out.sync_time) : inner + out.sync_time;
  out.tokens =
      s.wall_clock / out.outer_time * static_cast<double>(out.inner_steps) * s.step_tokens * groups;
}

// N/S pipelines at most, a fraction counted as the model does, and never less than one.
void FillLonePipeline(const Scenario& s, Outcome& out) {
  out.warnings.pipeline_fell_back = true;
  out.warnings.too_few_nodes = s.nodes < out.stages;
  FillStep(s, std::min(s.wan_up, s.wan_down), s.wan_rtt, out);
  out.inner_steps = s.inner_steps.value_or(1);
  out.outer_time = static_cast<double>(out.inner_steps) * out.step_time;
  const double pipelines =
      std::max(1.0, static_cast<double>(s.nodes) / static_cast<double>(out.stages));
  out.tokens = s.wall_clock / out.step_time * s.step_tokens * pipelines;
}

}  // namespace

BoundaryBits BitsOfStep(const Scenario& s, const Outcome& out) {
  const double width = 0.03 * std::sqrt(out.active_parameters);  // h
  const double forward = s.measured.forward_ratio.value_or(s.activation_ratio);
  const double backward =
      s.measured.backward_ratio.value_or(s.backward_ratio.value_or(s.activation_ratio));
  const double plain_bits = s.step_tokens * width * BitsPerValue(s.precision);  // one direction
  return {plain_bits / forward, plain_bits / backward};
}

void SimulatePipeline(const Scenario& s, Outcome& out) {
  out.groups = s.nodes / out.stages;
  if (out.groups >= 2) {
    out.mode = Mode::kPipelineGroups;
    FillGroups(s, out);
  } else {
    out.mode = Mode::kPurePipeline;
    out.groups = 1;
    FillLonePipeline(s, out);
  }
  if (s.switches.straggler == Straggler::kBackup) out.tokens /= 1.1;
  out.replicas = out.groups;
  out.effective_steps = static_cast<double>(out.inner_steps);
  out.raw = 6 * out.active_parameters * out.tokens;
}

}  // namespace longhaul::simulator
