#include "planning/simulator/switches.h"

#include <algorithm>

#include <fmt/format.h>

#include "planning/simulator/profiles.h"

namespace longhaul::simulator {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kProfiles[] = {"governance", "governance-pp", "documentation", "latest"};
constexpr std::string_view kPrecisions[] = {"fp16", "fp8", "fp4"};
constexpr std::string_view kCases[] = {"optimistic", "expected", "conservative"};
constexpr std::string_view kTopologies[] = {"flat", "hierarchical"};
constexpr std::string_view kExperts[] = {"none", "global", "regional"};
constexpr std::string_view kGradientTables[] = {"governance", "documentation", "latest-without-ef",
                                                "latest-with-ef"};
constexpr std::string_view kActivationTables[] = {"note", "first-pp", "latest", "documentation"};
constexpr std::string_view kReplicas[] = {"linear", "linear-no-floor", "loss", "loss-without-h",
                                          "loss-in-chi"};
constexpr std::string_view kStragglers[] = {"sync", "threshold", "backup", "relay"};
constexpr std::string_view kLinks[] = {"regional", "wan"};
constexpr std::string_view kMicroComputes[] = {"per-stage", "whole-model"};
constexpr std::string_view kModes[] = {"flat", "hierarchical", "pp-group", "pure-pp"};

std::string OnOff(bool on) { return on ? "on" : "off"; }

}  // namespace

std::span<const std::string_view> Names(ProfileName) { return kProfiles; }
std::span<const std::string_view> Names(Precision) { return kPrecisions; }
std::span<const std::string_view> Names(Case) { return kCases; }
std::span<const std::string_view> Names(Topology) { return kTopologies; }
std::span<const std::string_view> Names(ExpertParallel) { return kExperts; }
std::span<const std::string_view> Names(GradientTable) { return kGradientTables; }
std::span<const std::string_view> Names(ActivationTable) { return kActivationTables; }
std::span<const std::string_view> Names(Replica) { return kReplicas; }
std::span<const std::string_view> Names(Straggler) { return kStragglers; }
std::span<const std::string_view> Names(PipelineLinks) { return kLinks; }
std::span<const std::string_view> Names(MicroCompute) { return kMicroComputes; }
std::span<const std::string_view> Names(Mode) { return kModes; }

std::vector<SwitchSetting> Settings(const Switches& w) {
  const auto text = [](auto value) { return std::string(NameOf(value)); };
  return {{"eta_c", text(w.gradient_table)},
          {"eta_act", text(w.activation_table)},
          {"replica", text(w.replica)},
          {"straggler", text(w.straggler)},
          {"chi", OnOff(w.chi)},
          {"tokens_per_parameter", fmt::format("{}", w.tokens_per_parameter)},
          {"overtrain_target", fmt::format("{}", w.overtrain_target)},
          {"pp_links", text(w.pipeline_links)},
          {"micro_compute", text(w.micro_compute)},
          {"boundary_overlap", OnOff(w.boundary_overlap)},
          {"stage_parallel_sync", OnOff(w.stage_parallel_sync)},
          {"streaming", OnOff(w.streaming)}};
}

std::vector<SwitchDifference> Differences(const Scenario& scenario) {
  const std::vector<SwitchSetting> ours = Settings(scenario.switches);
  const std::vector<SwitchSetting> theirs = Settings(ProfileScenario(scenario.profile).switches);
  std::vector<SwitchDifference> out;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].value == theirs[i].value) continue;
    out.push_back({ours[i].name, ours[i].value, theirs[i].value});
  }
  return out;
}

std::vector<std::string> WarningTexts(const Scenario& s, const Outcome& out) {
  std::vector<std::string> texts;
  const Warnings& w = out.warnings;
  if (w.hierarchy_fell_back) {
    texts.push_back(fmt::format("{} nodes make fewer than two groups of {}: computed flat", s.nodes,
                                s.group_nodes));
  }
  if (w.too_few_nodes) {
    texts.push_back(fmt::format("the model needs {} nodes, there are {}: it fits nowhere",
                                out.stages, s.nodes));
  } else if (w.pipeline_fell_back) {
    texts.push_back(
        fmt::format("{} nodes make fewer than two pipelines of {}: one pipeline over the "
                    "WAN, every boundary at WAN rate",
                    s.nodes, out.stages));
  }
  if (w.mfu_above_plausible) {
    texts.push_back(fmt::format("MFU {} is above the plausible 0.30 to 0.60", s.mfu));
  }
  if (w.gradient_table_ended) {
    texts.push_back(fmt::format("eta_c table '{}' ends below {}x: its last value is held",
                                NameOf(s.switches.gradient_table), s.gradient_ratio));
  }
  if (w.activation_table_ended) {
    texts.push_back(fmt::format("eta_act table '{}' ends below {}x: its last q is held",
                                NameOf(s.switches.activation_table),
                                std::max(s.activation_ratio, s.backward_ratio.value_or(0))));
  }
  return texts;
}

}  // namespace longhaul::simulator
