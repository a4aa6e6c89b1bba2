#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

enum class Target { kLocal, kQuality, kRaw };
double ValueOf(const Outcome& outcome, Target target);

// The fewest nodes, counted up from one, at which the target value is >= `at_least` exactly; none
// up to `most`. Every count is tried: groups and fall-backs make the value jump down as well as up.
// `adjust`: what is computed in place of the scenario at each count.
std::optional<int64_t> FewestNodes(
    Scenario scenario, Target target, double at_least, int64_t most,
    const std::function<Scenario(const Scenario&)>& adjust = nullptr);

}  // namespace longhaul::simulator
