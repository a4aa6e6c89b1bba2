#include "planning/simulator/scenario_keys.h"

#include <fmt/format.h>

#include "planning/simulator/simulate.h"
#include "planning/simulator/switches.h"

namespace longhaul::simulator {
namespace {

using Kind = ScenarioKey::Kind;

ScenarioKey Real(std::string_view table, std::string_view name, double least, double most,
                 void (*set)(Draft&, double)) {
  return {table, name, Kind::kReal, least, most, {}, set};
}
ScenarioKey Whole(std::string_view table, std::string_view name, double least, double most,
                  void (*set)(Draft&, double)) {
  return {table, name, Kind::kWhole, least, most, {}, set};
}
ScenarioKey Flag(std::string_view name, void (*set)(Draft&, double)) {
  return {"switches", name, Kind::kFlag, 0, 1, {}, set};
}
ScenarioKey Choice(std::string_view table, std::string_view name,
                   std::span<const std::string_view> names, void (*set)(Draft&, double)) {
  return {table, name, Kind::kChoice, 0, 0, {names.begin(), names.end()}, set};
}

template <typename Enum>
Enum As(double value) {
  return static_cast<Enum>(static_cast<int>(value));
}
int64_t Int(double value) { return static_cast<int64_t>(value); }

std::vector<std::string_view> DeviceNames() {
  std::vector<std::string_view> names;
  for (const Device& device : Devices()) names.push_back(device.name);
  return names;
}

std::vector<ScenarioKey> NodeAndModel() {
  static const std::vector<std::string_view> devices = DeviceNames();
  return {
      Choice("", "case", Names(Case{}),
             [](Draft& d, double v) { d.scenario.expected = As<Case>(v); }),
      Choice("node", "device", devices,
             [](Draft& d, double v) { d.device = &Devices()[static_cast<size_t>(v)]; }),
      Whole("node", "devices", 1, 1e6, [](Draft& d, double v) { d.devices = Int(v); }),
      Choice("node", "precision", Names(Precision{}),
             [](Draft& d, double v) { d.scenario.precision = As<Precision>(v); }),
      Real("node", "petaflops", 1e-3, 1e6, [](Draft& d, double v) { d.petaflops = v; }),
      Real("node", "memory_gb", 1e-3, 1e9, [](Draft& d, double v) { d.memory_gb = v; }),
      Real("node", "device_usd", 0.01, 1e9, [](Draft& d, double v) { d.device_price = v; }),
      Real("node", "mfu", 0.001, 1, [](Draft& d, double v) { d.scenario.mfu = v; }),
      Real("model", "parameters_b", 1e-3, 1e6,
           [](Draft& d, double v) { d.scenario.parameters = v * 1e9; }),
      Real("model", "active_b", 1e-3, 1e6,
           [](Draft& d, double v) { d.scenario.active_parameters = v * 1e9; }),
      Choice("model", "expert_parallel", Names(ExpertParallel{}),
             [](Draft& d, double v) { d.scenario.expert_parallel = As<ExpertParallel>(v); }),
      Whole("model", "moe_layers", 1, 10000,
            [](Draft& d, double v) { d.scenario.moe_layers = Int(v); }),
  };
}

std::vector<ScenarioKey> NetworkAndTraining() {
  return {
      Whole("network", "nodes", 1, 1e9, [](Draft& d, double v) { d.scenario.nodes = Int(v); }),
      Whole("network", "group_nodes", 2, 1e6,
            [](Draft& d, double v) { d.scenario.group_nodes = Int(v); }),
      Choice("network", "topology", Names(Topology{}),
             [](Draft& d, double v) { d.scenario.topology = As<Topology>(v); }),
      Real("network", "wan_mbps", 1e-3, 1e7,
           [](Draft& d, double v) { d.scenario.wan_up = d.scenario.wan_down = v * 1e6; }),
      Real("network", "wan_up_mbps", 1e-3, 1e7,
           [](Draft& d, double v) { d.scenario.wan_up = v * 1e6; }),
      Real("network", "wan_down_mbps", 1e-3, 1e7,
           [](Draft& d, double v) { d.scenario.wan_down = v * 1e6; }),
      Real("network", "wan_rtt_ms", 0, 1e6,
           [](Draft& d, double v) { d.scenario.wan_rtt = v / 1000; }),
      Real("network", "regional_mbps", 1e-3, 1e7,
           [](Draft& d, double v) { d.scenario.regional_rate = v * 1e6; }),
      Real("network", "regional_rtt_ms", 0, 1e6,
           [](Draft& d, double v) { d.scenario.regional_rtt = v / 1000; }),
      Real("training", "gradient_ratio", 1, 1e6,
           [](Draft& d, double v) { d.scenario.gradient_ratio = v; }),
      Real("training", "activation_ratio", 1, 1e6,
           [](Draft& d, double v) { d.scenario.activation_ratio = v; }),
      Real("training", "backward_ratio", 1, 1e6,
           [](Draft& d, double v) { d.scenario.backward_ratio = v; }),
      Whole("training", "micro_batches", 1, 1e6,
            [](Draft& d, double v) { d.scenario.micro_batches = Int(v); }),
      Whole("training", "inner_steps", 1, 1e9,
            [](Draft& d, double v) { d.scenario.inner_steps = Int(v); }),
      Real("training", "step_tokens", 1, 1e12,
           [](Draft& d, double v) { d.scenario.step_tokens = v; }),
      Real("training", "years", 1e-6, 1000,
           [](Draft& d, double v) { d.scenario.wall_clock = v * kYearSeconds; }),
  };
}

std::vector<ScenarioKey> SwitchKeys() {
  return {
      Choice("switches", "eta_c", Names(GradientTable{}),
             [](Draft& d, double v) { d.scenario.switches.gradient_table = As<GradientTable>(v); }),
      Choice("switches", "eta_act", Names(ActivationTable{}),
             [](Draft& d, double v) {
               d.scenario.switches.activation_table = As<ActivationTable>(v);
             }),
      Choice("switches", "replica", Names(Replica{}),
             [](Draft& d, double v) { d.scenario.switches.replica = As<Replica>(v); }),
      Choice("switches", "straggler", Names(Straggler{}),
             [](Draft& d, double v) { d.scenario.switches.straggler = As<Straggler>(v); }),
      Choice("switches", "pp_links", Names(PipelineLinks{}),
             [](Draft& d, double v) { d.scenario.switches.pipeline_links = As<PipelineLinks>(v); }),
      Choice("switches", "micro_compute", Names(MicroCompute{}),
             [](Draft& d, double v) { d.scenario.switches.micro_compute = As<MicroCompute>(v); }),
      Real("switches", "tokens_per_parameter", 0.1, 1e6,
           [](Draft& d, double v) { d.scenario.switches.tokens_per_parameter = v; }),
      Real("switches", "overtrain_target", 0.001, 1e6,
           [](Draft& d, double v) { d.scenario.switches.overtrain_target = v; }),
      Flag("chi", [](Draft& d, double v) { d.scenario.switches.chi = v != 0; }),
      Flag("boundary_overlap",
           [](Draft& d, double v) { d.scenario.switches.boundary_overlap = v != 0; }),
      Flag("stage_parallel_sync",
           [](Draft& d, double v) { d.scenario.switches.stage_parallel_sync = v != 0; }),
      Flag("streaming", [](Draft& d, double v) { d.scenario.switches.streaming = v != 0; }),
  };
}

std::vector<ScenarioKey> AllKeys() {
  std::vector<ScenarioKey> keys = NodeAndModel();
  for (const auto& more : {NetworkAndTraining(), SwitchKeys()}) {
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return keys;
}

}  // namespace

std::span<const ScenarioKey> ScenarioKeys() {
  static const std::vector<ScenarioKey> keys = AllKeys();
  return keys;
}

Draft ProfileDraft(ProfileName profile) {
  Draft draft;
  draft.scenario = ProfileScenario(profile);
  draft.device = FindDevice("a100");
  draft.devices = draft.scenario.devices;
  return draft;
}

absl::StatusOr<Scenario> Draft::Build() const {
  Scenario s = scenario;
  Device own = *device;
  const double count = static_cast<double>(devices);
  if (petaflops) {
    (s.precision == Precision::kFp16 ? own.fp16_flops : own.fp8_flops) = *petaflops * 1e15 / count;
  }
  if (memory_gb) own.memory_bytes = *memory_gb * 1e9 / count;
  const bool later = s.profile == ProfileName::kLatest;
  if (device_price) (later ? own.later_price : own.price) = *device_price;
  const double peak = s.precision == Precision::kFp16 ? own.fp16_flops : own.fp8_flops;
  if (peak <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("'node.device' {} has no {} peak in the catalogue; say node.petaflops, or "
                    "another precision",
                    own.name, NameOf(s.precision)));
  }
  if (!SetNode(own, devices, s)) {
    return absl::InvalidArgumentError(fmt::format(
        "'node.device' {} has no price in the list of profile '{}'; say node.device_usd", own.name,
        NameOf(s.profile)));
  }
  const double all =
      s.parameters > 0 ? s.parameters : s.memory_bytes / StateBytesPerParameter(s.precision);
  if (s.active_parameters > all) {
    return absl::InvalidArgumentError(
        fmt::format("'model.active_b' is {}, above all parameters of the model, {} billion",
                    s.active_parameters / 1e9, all / 1e9));
  }
  return s;
}

}  // namespace longhaul::simulator
