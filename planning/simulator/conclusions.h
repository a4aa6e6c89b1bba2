#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/estimates/table.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {

// Puts measured factors into a scenario; the identity for the assumed tables.
using Adjust = std::function<Scenario(const Scenario&)>;

// A sentence of the planning documents as a number: true where the margin is >= 1, exactly.
struct Conclusion {
  std::string name;
  std::function<double(const Adjust&)> margin;
  // The q per crossing and direction, below the assumed 0.995 and all else assumed, where its truth
  // changes: the largest of 0.5 to 0.995. nullopt: nowhere there.
  std::optional<double> break_even_q = std::nullopt;
};
// Those of the governance tables: reaching 1e24 to 1e27, the best mode and size at 72, 500, 4000
// and 2000 nodes, what slow links cost, and eight stages keeping 0.90.
const std::vector<Conclusion>& Conclusions();

// A calibration gives verdicts on models up to so many times larger or smaller than the measured one.
inline constexpr double kMostSizeRatio = 10;

// For each conclusion that depends on q: the q where its truth changes, all else assumed.
Table BreakEvenTable();

}  // namespace longhaul::simulator
