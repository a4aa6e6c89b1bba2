#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/simulator/profiles.h"
#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// A scenario before its node is put together: keys are set one by one, in any order.
struct Draft {
  Scenario scenario;
  const Device* device = nullptr;
  int64_t devices = 48;
  std::optional<double> petaflops, memory_gb, device_price;  // in place of the device's own

  // The scenario with its node. InvalidArgument: a device without the precision, or without a price
  // in the profile's list; active parameters above all of them.
  absl::StatusOr<Scenario> Build() const;
};
// The draft that a profile starts from.
Draft ProfileDraft(ProfileName profile);

// One key of a scenario file: table.name, its bounds, and how a value is put into a draft. A choice
// is the index of its name; a flag is 0 or 1.
struct ScenarioKey {
  enum class Kind { kReal, kWhole, kChoice, kFlag };
  std::string_view table;
  std::string_view name;
  Kind kind;
  double least, most;                   // of kReal and kWhole, ends included
  std::vector<std::string_view> names;  // of kChoice
  void (*set)(Draft& draft, double value);
};
std::span<const ScenarioKey> ScenarioKeys();

}  // namespace longhaul::simulator
