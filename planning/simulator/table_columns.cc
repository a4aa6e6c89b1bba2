#include "planning/simulator/table_columns.h"

#include <algorithm>
#include <cstdlib>
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
    {"nodes", "nodes", kCount, "nodes"},
    {"gpus", "devices", kCount, "", 1,
     [](const Row& r, const Context&) {
       return static_cast<double>(r.scenario.nodes) * static_cast<double>(r.scenario.devices);
     }},
    {"gpus_per_node", "devices a node", kCount, "devices_per_node"},
    {"petaflops", "PFLOP/s a node", "{:.2f}", "", 1,
     [](const Row& r, const Context&) { return r.scenario.peak_flops / 1e15; }},
    {"memory_gb", "GB a node", kCount, "", 1,
     [](const Row& r, const Context&) { return r.scenario.memory_bytes / 1e9; }},
    {"state_gb", "state, GB", kCount, "", 1,
     [](const Row& r, const Context&) { return r.outcome.state_bytes / 1e9; }},
    {"h100_equivalents", "H100 a node", kTenths, "h100_equivalents"},
    {"cost_musd", "cost, M$", kTenths, "cost_usd", 1e6},
    {"cost_busd", "cost, B$", "{:.2f}", "cost_usd", 1e9},
    {"years", "years", "{:g}", "", 1,
     [](const Row& r, const Context&) { return r.scenario.wall_clock / kYearSeconds; }},
    {"wan_mbps", "WAN, Mbit/s", "{:g}", "", 1,
     [](const Row& r, const Context&) { return r.scenario.wan_up / 1e6; }},
    {"wan_rtt_ms", "RTT, ms", "{:g}", "", 1,
     [](const Row& r, const Context&) { return r.scenario.wan_rtt * 1e3; }},
    {"parameters_b", "P, B", kSize, "parameters", 1e9},
    {"active_b", "active, B", kSize, "active_parameters", 1e9},
    {"stages", "S", kCount, "stages"},
    {"groups", "G", kCount, "groups"},
    {"payload_gb", "exchange, GB", kSize, "payload_bits", 8e9},
    {"compute_seconds", "T_c, s", kTenths, "", 1,
     [](const Row& r, const Context&) { return r.outcome.compute_time; }},
    {"expert_seconds", "T_EP, s", kTenths, "", 1,
     [](const Row& r, const Context&) { return r.outcome.expert_time; }},
    {"step_seconds", "T_step, s", "{:.3f}", "step_seconds"},
    {"sync_seconds", "T_sync, s", kTenths, "sync_seconds"},
    {"engine_step_seconds", "engine T_step, s", "{:.3f}", "", 1,
     [](const Row& r, const Context&) { return EngineTimesOf(r.scenario, r.outcome).step; }},
    {"engine_sync_seconds", "engine T_sync, s", kTenths, "", 1,
     [](const Row& r, const Context&) { return EngineTimesOf(r.scenario, r.outcome).sync; }},
    {"step_over_engine", "T_step / engine", "{:.2f}", "", 1,
     [](const Row& r, const Context&) {
       return r.outcome.step_time / EngineTimesOf(r.scenario, r.outcome).step;
     }},
    {"sync_over_engine", "T_sync / engine", "{:.2f}", "", 1,
     [](const Row& r, const Context&) {
       return r.outcome.sync_time / EngineTimesOf(r.scenario, r.outcome).sync;
     }},
    {"outer_minutes", "outer, min", kTenths, "outer_seconds", 60},
    {"sync_mbps", "mean Mbit/s each way", "{:.2f}", "sync_rate_bit_s", 1e6},
    {"latency_percent", "RTT, % of a sync", "{:.4f}", "", 1,
     [](const Row& r, const Context&) { return 100 * LatencyShare(r.scenario, r.outcome); }},
    {"overhead_percent", "experts, %", kTenths, "", 1,
     [](const Row& r, const Context&) { return 100 * r.outcome.overhead; }},
    {"bubble_percent", "bubble, %", kTenths, "", 1,
     [](const Row& r, const Context&) { return 100 * r.outcome.bubble; }},
    {"inner_steps", "H", kCount, "inner_steps"},
    {"regional_cycles", "H_R", kCount, "regional_cycles"},
    {"effective_steps", "H_eff", "{:.2f}", "effective_steps"},
    {"eta_h", "eta_H", kFactor, "eta_h"},
    {"eta_c", "eta_c", kFactor, "eta_c"},
    {"eta_r", "eta_r", kFactor, "eta_r"},
    {"eta_act", "eta_act", kFactor, "eta_act"},
    {"eta", "eta", kFactor, "eta"},
    {"c_raw", "C_raw", kCompute, "c_raw"},
    {"c_local", "C_local", kCompute, "c_local"},
    {"chi", "chi", kFactor, "chi"},
    {"c_quality", "C_quality", kCompute, "c_quality"},
    {"times_threshold", "x threshold", kTenths, "", 1,
     [](const Row& r, const Context& c) { return r.outcome.local / c.threshold; }},
    {"percent_of_best", "% of best", kCount, "", 1,
     [](const Row& r, const Context& c) { return 100 * r.outcome.local / c.best; }},
    {"tokens_t", "tokens, T", kTenths, "tokens", 1e12},
    {"allocation_ratio", "D/(rP)", kTenths, "tokens_over_allocation"},
};

}  // namespace

EngineTimes EngineTimesOf(const Scenario& s, const Outcome& out) {
  if (out.stages > kMost || s.micro_batches > kMost) return {kNone, kNone};
  return {Step(s, out), Sync(s, out)};
}

double TableColumn::Get(const ResultRow& row, const TableContext& context) const {
  if (own != nullptr) return own(row, context);
  for (const Quantity& q : Quantities()) {
    if (q.name == quantity) return q.get(row) / unit;
  }
  std::abort();  // a column of no quantity
}

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
