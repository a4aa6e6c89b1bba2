#pragma once

#include <string>
#include <vector>

#include "experiments/spec/spec.h"

namespace longhaul {

// What a run's settings do to its figures, before it trains. One line each, with the figures; empty where nothing is to be
// said. What its data did to them Python says (python/longhaul/analysis/advice.py).

// A warm-up of under 5 % of the steps makes the spread between seeds, and with it every interval, wider than it need be.
constexpr double kLeastWarmUpShare = kWarmUpShare;
std::vector<std::string> WarmUpAdvice(const RunSpec& spec);

// Links that are named and that nothing goes over, or of which the simulated clock leaves something out.
std::vector<std::string> LinkAdvice(const RunSpec& spec);

}  // namespace longhaul
