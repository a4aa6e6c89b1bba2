#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// The names of a switch's values, in the order of its enum: what scenario files and results say.
std::span<const std::string_view> Names(ProfileName);
std::span<const std::string_view> Names(Precision);
std::span<const std::string_view> Names(Case);
std::span<const std::string_view> Names(Topology);
std::span<const std::string_view> Names(ExpertParallel);
std::span<const std::string_view> Names(GradientTable);
std::span<const std::string_view> Names(ActivationTable);
std::span<const std::string_view> Names(Replica);
std::span<const std::string_view> Names(Straggler);
std::span<const std::string_view> Names(PipelineLinks);
std::span<const std::string_view> Names(MicroCompute);
std::span<const std::string_view> Names(Mode);

template <typename Enum>
std::string_view NameOf(Enum value) {
  return Names(value)[static_cast<size_t>(value)];
}

struct SwitchSetting {
  std::string name;
  std::string value;
};
// Every switch, its value as text, always in the same order.
std::vector<SwitchSetting> Settings(const Switches& switches);

struct SwitchDifference {
  std::string name;
  std::string value;
  std::string of_profile;
};
// The switches that differ from those of the scenario's profile.
std::vector<SwitchDifference> Differences(const Scenario& scenario);

// What the fall-backs and the ends of tables want said, one sentence each.
std::vector<std::string> WarningTexts(const Scenario& scenario, const Outcome& outcome);

}  // namespace longhaul::simulator
