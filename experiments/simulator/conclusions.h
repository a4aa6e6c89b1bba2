#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/simulator/transfer.h"

namespace longhaul::simulator {

// Puts measured factors into a scenario; the identity for the assumed tables.
using Adjust = std::function<Scenario(const Scenario&)>;

// A sentence of the planning documents as a number: true where the margin is >= 1, exactly.
struct Conclusion {
  std::string name;
  std::function<double(const Adjust&)> margin;
};
// Those of the governance tables: reaching 1e24 to 1e27, the best mode and size at 72, 500, 4000
// and 2000 nodes, what slow links cost, and eight stages keeping 0.90.
const std::vector<Conclusion>& Conclusions();

enum class Change { kUnchanged, kFlips, kUndetermined };
std::string_view ChangeName(Change change);

// A conclusion with the measured factors. One source of uncertainty: low and high are the least and
// the most over its interval; several: 2.5 and 97.5 % of 10,000 independent draws, the point their
// median. `touched`: any measured factor moved it at all.
struct Judgement {
  std::string name;
  double assumed, low, point, high;
  Change change;
  bool touched;
};
Judgement Judge(const CalibrationPlan& plan, Transfer transfer, const Conclusion& conclusion);
std::vector<Judgement> Judge(const CalibrationPlan& plan, Transfer transfer);

// The whole answer as text: what was measured and what stays assumed, the distance, and each
// conclusion assumed beside measured, by token transfer and, where possible, by loss transfer.
std::string ConclusionsText(const CalibrationPlan& plan);

// A scenario of a table, as the table names it.
struct NamedScenario {
  std::string name;
  Scenario scenario;
};
// The same table twice: C_local and, where counted, C_quality of each scenario, assumed beside
// measured with its interval and the relative change.
std::string MeasuredTable(const CalibrationPlan& plan, const std::vector<NamedScenario>& rows);

}  // namespace longhaul::simulator
