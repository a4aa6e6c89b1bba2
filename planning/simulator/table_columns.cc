#include "planning/simulator/table_columns.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "experiments/estimates/step_time.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

constexpr int64_t kMost = 1024;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double Step(const Scenario& s, const Outcome& out) {
  if (out.stages == 1) return out.step_time;
  const bool wan =
      out.mode == Mode::kPurePipeline || s.switches.pipeline_links == PipelineLinks::kWan;
  const double rate = wan ? std::min(s.wan_up, s.wan_down) : s.regional_rate;
  const double rtt = wan ? s.wan_rtt : s.regional_rtt;
  const BoundaryBits bits = BitsOfStep(s, out);
  const auto link = [&](double of_step) {
    return BoundaryLink{of_step / 8 / static_cast<double>(s.micro_batches), rate, rtt / 2};
  };
  const size_t boundaries = static_cast<size_t>(out.stages) - 1;
  const StageCost stage{.forward_s = out.compute_time / 3,
                        .backward_s = out.compute_time * 2 / 3,
                        .weight_gradient_s = out.compute_time / 3};
  return PredictStepSeconds(
             {.schedule = "1f1b",
              .microbatches = static_cast<int>(s.micro_batches),
              .stages = std::vector<StageCost>(boundaries + 1, stage),
              .forward = std::vector<BoundaryLink>(boundaries, link(bits.forward)),
              .backward = std::vector<BoundaryLink>(boundaries, link(bits.backward))})
      .value_or(kNone);
}

double Sync(const Scenario& s, const Outcome& out) {
  const double peers = static_cast<double>(out.replicas) - 1;
  if (peers < 1) return 0;
  const double bytes = peers * out.payload_bits / 8 / static_cast<double>(out.stages);
  Connection fresh;
  return Take(ColdWireOf({bytes, std::min(s.wan_up, s.wan_down), s.wan_rtt / 2}, peers), 0, &fresh)
      .arrived;
}

using Row = ResultRow;
using Context = TableContext;

constexpr std::string_view kCompute = "{:.2e}", kFactor = "{:.3f}", kCount = "{:.0f}",
                           kTenths = "{:.1f}", kSize = "{:.4g}";

constexpr TableColumn kTableColumns[] = {
    {"nodes", "nodes", kCount,
     [](const Row& r, const Context&) { return static_cast<double>(r.scenario.nodes); }},
    {"gpus", "devices", kCount,
     [](const Row& r, const Context&) {
       return static_cast<double>(r.scenario.nodes) * static_cast<double>(r.scenario.devices);
     }},
    {"gpus_per_node", "devices a node", kCount,
     [](const Row& r, const Context&) { return static_cast<double>(r.scenario.devices); }},
    {"petaflops", "PFLOP/s a node", "{:.2f}",
     [](const Row& r, const Context&) { return r.scenario.peak_flops / 1e15; }},
    {"memory_gb", "GB a node", kCount,
     [](const Row& r, const Context&) { return r.scenario.memory_bytes / 1e9; }},
    {"state_gb", "state, GB", kCount,
     [](const Row& r, const Context&) { return r.outcome.state_bytes / 1e9; }},
    {"h100_equivalents", "H100 a node", kTenths,
     [](const Row& r, const Context&) { return r.outcome.h100_equivalents; }},
    {"cost_musd", "cost, M$", kTenths,
     [](const Row& r, const Context&) { return r.outcome.cost / 1e6; }},
    {"cost_busd", "cost, B$", "{:.2f}",
     [](const Row& r, const Context&) { return r.outcome.cost / 1e9; }},
    {"years", "years", "{:g}",
     [](const Row& r, const Context&) { return r.scenario.wall_clock / kYearSeconds; }},
    {"wan_mbps", "WAN, Mbit/s", "{:g}",
     [](const Row& r, const Context&) { return r.scenario.wan_up / 1e6; }},
    {"wan_rtt_ms", "RTT, ms", "{:g}",
     [](const Row& r, const Context&) { return r.scenario.wan_rtt * 1e3; }},
    {"parameters_b", "P, B", kSize,
     [](const Row& r, const Context&) { return r.outcome.parameters / 1e9; }},
    {"active_b", "active, B", kSize,
     [](const Row& r, const Context&) { return r.outcome.active_parameters / 1e9; }},
    {"stages", "S", kCount,
     [](const Row& r, const Context&) { return static_cast<double>(r.outcome.stages); }},
    {"groups", "G", kCount,
     [](const Row& r, const Context&) { return static_cast<double>(r.outcome.groups); }},
    {"payload_gb", "exchange, GB", kSize,
     [](const Row& r, const Context&) { return r.outcome.payload_bits / 8e9; }},
    {"compute_seconds", "T_c, s", kTenths,
     [](const Row& r, const Context&) { return r.outcome.compute_time; }},
    {"expert_seconds", "T_EP, s", kTenths,
     [](const Row& r, const Context&) { return r.outcome.expert_time; }},
    {"step_seconds", "T_step, s", "{:.3f}",
     [](const Row& r, const Context&) { return r.outcome.step_time; }},
    {"sync_seconds", "T_sync, s", kTenths,
     [](const Row& r, const Context&) { return r.outcome.sync_time; }},
    {"engine_step_seconds", "engine T_step, s", "{:.3f}",
     [](const Row& r, const Context&) { return EngineTimesOf(r.scenario, r.outcome).step; }},
    {"engine_sync_seconds", "engine T_sync, s", kTenths,
     [](const Row& r, const Context&) { return EngineTimesOf(r.scenario, r.outcome).sync; }},
    {"step_over_engine", "T_step / engine", "{:.2f}",
     [](const Row& r, const Context&) {
       return r.outcome.step_time / EngineTimesOf(r.scenario, r.outcome).step;
     }},
    {"sync_over_engine", "T_sync / engine", "{:.2f}",
     [](const Row& r, const Context&) {
       return r.outcome.sync_time / EngineTimesOf(r.scenario, r.outcome).sync;
     }},
    {"outer_minutes", "outer, min", kTenths,
     [](const Row& r, const Context&) { return r.outcome.outer_time / 60; }},
    {"sync_mbps", "mean Mbit/s each way", "{:.2f}",
     [](const Row& r, const Context&) { return MeanSyncRate(r.outcome) / 1e6; }},
    {"latency_percent", "RTT, % of a sync", "{:.4f}",
     [](const Row& r, const Context&) { return 100 * LatencyShare(r.scenario, r.outcome); }},
    {"overhead_percent", "experts, %", kTenths,
     [](const Row& r, const Context&) { return 100 * r.outcome.overhead; }},
    {"bubble_percent", "bubble, %", kTenths,
     [](const Row& r, const Context&) { return 100 * r.outcome.bubble; }},
    {"inner_steps", "H", kCount,
     [](const Row& r, const Context&) { return static_cast<double>(r.outcome.inner_steps); }},
    {"regional_cycles", "H_R", kCount,
     [](const Row& r, const Context&) { return static_cast<double>(r.outcome.regional_cycles); }},
    {"effective_steps", "H_eff", "{:.2f}",
     [](const Row& r, const Context&) { return r.outcome.effective_steps; }},
    {"eta_h", "eta_H", kFactor, [](const Row& r, const Context&) { return r.outcome.eta_h; }},
    {"eta_c", "eta_c", kFactor, [](const Row& r, const Context&) { return r.outcome.eta_c; }},
    {"eta_r", "eta_r", kFactor, [](const Row& r, const Context&) { return r.outcome.eta_r; }},
    {"eta_act", "eta_act", kFactor, [](const Row& r, const Context&) { return r.outcome.eta_act; }},
    {"eta", "eta", kFactor, [](const Row& r, const Context&) { return r.outcome.eta; }},
    {"c_raw", "C_raw", kCompute, [](const Row& r, const Context&) { return r.outcome.raw; }},
    {"c_local", "C_local", kCompute, [](const Row& r, const Context&) { return r.outcome.local; }},
    {"chi", "chi", kFactor, [](const Row& r, const Context&) { return r.outcome.chi; }},
    {"c_quality", "C_quality", kCompute,
     [](const Row& r, const Context&) { return r.outcome.quality; }},
    {"times_threshold", "x threshold", kTenths,
     [](const Row& r, const Context& c) { return r.outcome.local / c.threshold; }},
    {"percent_of_best", "% of best", kCount,
     [](const Row& r, const Context& c) { return 100 * r.outcome.local / c.best; }},
    {"tokens_t", "tokens, T", kTenths,
     [](const Row& r, const Context&) { return r.outcome.tokens / 1e12; }},
    {"allocation_ratio", "D/(rP)", kTenths,
     [](const Row& r, const Context&) { return r.outcome.overtraining; }},
};

}  // namespace

EngineTimes EngineTimesOf(const Scenario& s, const Outcome& out) {
  if (out.stages > kMost || s.micro_batches > kMost) return {kNone, kNone};
  return {Step(s, out), Sync(s, out)};
}

std::span<const TableColumn> TableColumns() { return kTableColumns; }

const TableColumn* FindTableColumn(std::string_view name) {
  for (const TableColumn& column : kTableColumns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

std::string TableColumnNames() {
  std::string names;
  for (const TableColumn& column : kTableColumns) {
    names += (names.empty() ? "" : ", ") + std::string(column.name);
  }
  return names;
}

std::string Formatted(const TableColumn& column, double value) {
  return fmt::format(fmt::runtime(column.form), value);
}

}  // namespace longhaul::simulator
