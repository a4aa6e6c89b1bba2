#include "planning/simulator/simulate.h"

#include <algorithm>
#include <cmath>

#include "planning/simulator/efficiency_terms.h"

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

double Straggle(const Scenario& s, int64_t n) {
  return StragglerFactor(s.switches.straggler, static_cast<double>(n), s.measured);
}

// The share of T_w in which every node computes: 1 as long as the exchange hides behind H steps.
double Utilisation(const Scenario& s, double inner, double sync) {
  if (!s.switches.streaming) return inner / (inner + sync);
  return inner >= sync * (1 - 1e-8) ? 1 : inner / sync;  // as lenient as GuardedCeil
}

double FillFlat(const Scenario& s, Outcome& out) {
  out.mode = Mode::kFlat;
  if (s.nodes <= 1) {
    out.outer_time = out.step_time;
    return 1;
  }
  const double base = out.payload_bits / s.wan_up + out.payload_bits / s.wan_down + s.wan_rtt;
  out.sync_time = base * Straggle(s, s.nodes);
  out.inner_steps = s.inner_steps.value_or(GuardedCeil(out.sync_time / out.step_time));
  out.effective_steps = static_cast<double>(out.inner_steps);
  const double inner = out.effective_steps * out.step_time;
  out.outer_time = s.switches.streaming ? std::max(inner, out.sync_time) : inner + out.sync_time;
  return Utilisation(s, inner, out.sync_time);
}

double FillHierarchical(const Scenario& s, Outcome& out) {
  out.mode = Mode::kHierarchical;
  out.groups = s.nodes / s.group_nodes;
  out.regional_sync_time =
      (2 * out.payload_bits / s.regional_rate + s.regional_rtt) * Straggle(s, s.group_nodes);
  out.inner_steps = s.inner_steps.value_or(GuardedCeil(out.regional_sync_time / out.step_time));
  const double inner = static_cast<double>(out.inner_steps) * out.step_time;
  const double cycle = s.switches.streaming ? std::max(inner, out.regional_sync_time)
                                            : inner + out.regional_sync_time;
  out.sync_time = (out.payload_bits / s.wan_up + out.payload_bits / s.wan_down + s.wan_rtt) *
                  Straggle(s, out.groups);
  out.regional_cycles = GuardedCeil(out.sync_time / cycle);
  const double cycles = static_cast<double>(out.regional_cycles) * cycle;
  out.outer_time = s.switches.streaming ? std::max(cycles, out.sync_time) : cycles + out.sync_time;
  out.effective_steps =
      static_cast<double>(out.inner_steps) * std::sqrt(static_cast<double>(out.regional_cycles));
  return Utilisation(s, inner, out.regional_sync_time) * Utilisation(s, cycles, out.sync_time);
}

// Every node holds the model: C_raw = N F MFU T_w, less what experts and short H wait for.
void FillWholeNodes(const Scenario& s, Outcome& out) {
  out.compute_time = 6 * out.active_parameters * s.step_tokens / (s.peak_flops * s.mfu);
  out.overhead = out.expert_time / (out.compute_time + out.expert_time);
  out.step_time = out.compute_time + out.expert_time;
  const bool wants_hierarchy = s.topology == Topology::kHierarchical;
  const bool hierarchy = wants_hierarchy && s.nodes / s.group_nodes >= 2;
  out.warnings.hierarchy_fell_back = wants_hierarchy && !hierarchy;
  const double used = hierarchy ? FillHierarchical(s, out) : FillFlat(s, out);
  out.replicas = s.nodes;
  double nodes = static_cast<double>(s.nodes);
  if (s.switches.straggler == Straggler::kBackup && s.nodes > 1) nodes /= 1.1;
  out.raw = nodes * s.peak_flops * s.mfu * s.wall_clock;
  if (out.expert_time > 0) out.raw *= 1 - out.overhead;
  if (used < 1) out.raw *= used;
  out.tokens = out.raw / (6 * out.active_parameters);
}

double EtaR(const Scenario& s, const Outcome& out, double reference) {
  if (s.measured.eta_r) return *s.measured.eta_r;
  const auto linear = [&](double floor) {
    return EtaRLinear(out.parameters, out.replicas, s.measured.replica_floor.value_or(floor),
                      s.measured.replica_coefficient.value_or(0.005));
  };
  switch (s.switches.replica) {
    case Replica::kLinear:
      return linear(0.85);
    case Replica::kLinearNoFloor:
      return linear(0);
    case Replica::kLossInChi:
      return 1;
    case Replica::kLoss:
    case Replica::kLossWithoutH:
      break;
  }
  const double m = ReplicaLossFactor(out.parameters, out.replicas, out.effective_steps,
                                     s.switches.replica == Replica::kLoss);
  if (m <= 1) return 1;
  return Chi(m, out.parameters, out.tokens, out.raw, reference) /
         Chi(1, out.parameters, out.tokens, out.raw, reference);
}

void FillEta(const Scenario& s, double reference, Outcome& out) {
  out.alpha = Alpha(out.parameters);
  if (s.measured.alpha_scale) out.alpha *= *s.measured.alpha_scale;
  const bool exchanges = out.replicas > 1;
  if (exchanges || out.mode == Mode::kPurePipeline) {
    out.eta_h =
        s.measured.eta_h.value_or(EtaH(out.alpha, out.effective_steps, s.switches.straggler));
  }
  if (exchanges) {
    out.eta_c =
        s.measured.eta_c.value_or(EtaC(s.switches.gradient_table, s.expected, s.gradient_ratio));
    out.eta_r = EtaR(s, out, reference);
    out.warnings.gradient_table_ended =
        !s.measured.eta_c && s.gradient_ratio > LastGradientAnchor(s.switches.gradient_table);
  }
  out.eta_act = EtaAct(s, out.stages);
  out.warnings.activation_table_ended = out.stages > 1 && !s.measured.q &&
                                        std::max(s.activation_ratio, s.backward_ratio.value_or(0)) >
                                            LastActivationAnchor(s.switches.activation_table);
  out.eta = out.eta_h * out.eta_c * out.eta_r * out.eta_act;
}

void FillQuality(const Scenario& s, double reference, Outcome& out) {
  out.local = out.raw * out.eta;
  if (s.switches.chi && s.nodes > 1) {
    const double m =
        s.switches.replica == Replica::kLossInChi
            ? ReplicaLossFactor(out.parameters, out.replicas, out.effective_steps, false)
            : 1;
    out.chi = Chi(m, out.parameters, out.tokens, out.raw, reference);
  }
  out.quality = out.local * out.chi;
  out.overtraining = out.tokens / (reference * out.active_parameters);
}

// Experts spread over nodes: what one node holds then, and the two exchanges of every MoE layer.
void TryExperts(const Scenario& s, double beta, Outcome& out) {
  if (out.stages == 1 || s.expert_parallel == ExpertParallel::kNone) return;
  const bool global = s.expert_parallel == ExpertParallel::kGlobal;
  const double ways = static_cast<double>(global ? s.nodes : std::min(s.nodes, s.group_nodes));
  const double resident =
      (out.active_parameters + (out.parameters - out.active_parameters) / ways) * beta;
  if (GuardedCeil(resident / s.memory_bytes) > 1) return;
  out.stages = 1;
  out.state_bytes = resident;
  out.expert_time = 2 * (global ? s.wan_rtt : s.regional_rtt) * static_cast<double>(s.moe_layers);
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

int64_t GuardedCeil(double x) {
  constexpr double kMost = 4611686018427387904.0;  // 2^62
  const double up = std::ceil(x - 1e-9 * std::max(1.0, std::abs(x)));
  return static_cast<int64_t>(std::clamp(up, 1.0, kMost));
}

double StateBytesPerParameter(Precision precision) {
  constexpr double kMasterAndMoments = 12;
  return 2 * BitsPerValue(precision) / 8 + kMasterAndMoments;
}

double BitsPerValue(Precision precision) {
  switch (precision) {
    case Precision::kFp16:
      return 16;
    case Precision::kFp8:
      return 8;
    case Precision::kFp4:
      break;
  }
  return 4;
}

Outcome Simulate(const Scenario& s) {
  Outcome out;
  const double beta = StateBytesPerParameter(s.precision);
  out.parameters = s.parameters > 0 ? s.parameters : s.memory_bytes / beta;
  out.active_parameters = s.active_parameters > 0 ? s.active_parameters : out.parameters;
  out.state_bytes = out.parameters * beta;
  out.payload_bits = out.parameters * BitsPerValue(s.precision) / s.gradient_ratio;
  out.stages = GuardedCeil(out.state_bytes / s.memory_bytes);
  TryExperts(s, beta, out);
  if (out.stages > 1) {
    SimulatePipeline(s, out);
  } else {
    FillWholeNodes(s, out);
  }
  out.warnings.mfu_above_plausible = s.mfu > 0.60;
  out.cost = static_cast<double>(s.nodes) * static_cast<double>(s.devices) * s.device_price;
  out.h100_equivalents = static_cast<double>(s.devices) * s.device_fp16_flops / 990e12;
  const double reference = s.switches.tokens_per_parameter * s.switches.overtrain_target;
  FillEta(s, reference, out);
  FillQuality(s, reference, out);
  return out;
}

double MeanSyncRate(const Outcome& out) {
  return out.replicas > 1 ? out.payload_bits / out.outer_time : 0;
}

double LatencyShare(const Scenario& s, const Outcome& out) {
  return s.wan_rtt / (out.payload_bits / s.wan_up + out.payload_bits / s.wan_down);
}

double GlobalMfu(const Scenario& s, const Outcome& out) {
  return out.local / (static_cast<double>(s.nodes) * s.peak_flops * s.wall_clock);
}

double ValueOf(const Outcome& out, Target target) {
  switch (target) {
    case Target::kLocal:
      return out.local;
    case Target::kQuality:
      return out.quality;
    case Target::kRaw:
      break;
  }
  return out.raw;
}

std::optional<int64_t> FewestNodes(Scenario s, Target target, double at_least, int64_t most,
                                   const std::function<Scenario(const Scenario&)>& adjust) {
  for (s.nodes = 1; s.nodes <= most; ++s.nodes) {
    const Outcome out = adjust ? Simulate(adjust(s)) : Simulate(s);
    if (ValueOf(out, target) >= at_least) return s.nodes;
  }
  return std::nullopt;
}

}  // namespace longhaul::simulator
