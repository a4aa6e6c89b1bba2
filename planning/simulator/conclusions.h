#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/estimates/table.h"
#include "planning/simulator/simulate.h"
#include "planning/simulator/transfer.h"

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

enum class Change { kUnchanged, kFlips, kUndetermined };

// A conclusion with the measured factors. One source of uncertainty: low and high are the least and
// the most over its interval; several: 2.5 and 97.5 % of 10,000 independent draws, the point their
// median. `touched`: any measured factor moved it at all.
struct Judgement {
  std::string name;
  double assumed, low, point, high;
  Change change;  // over low..high, whatever the size
  bool touched;
  double size_ratio;  // of the conclusion's model that is furthest from the measured one, >= 1
  std::optional<double> break_even_q;
  bool has_verdict() const { return size_ratio <= kMostSizeRatio; }
};
// "unchanged", "flips", "undetermined"; "none" beyond kMostSizeRatio.
std::string_view VerdictName(const Judgement& judgement);
inline constexpr size_t kDraws = 10000;
Judgement Judge(const CalibrationPlan& plan, Transfer transfer, const Conclusion& conclusion,
                size_t draws = kDraws);

// A conclusion with everything measured, and with each part of the calibration alone, all else
// assumed. The parts are there where the conclusion changes, or would by one of them.
struct Attribution {
  struct OfPart {
    Part part;
    Judgement judgement;
  };
  Transfer transfer;
  Judgement whole;
  std::vector<OfPart> parts;
};
Attribution Attribute(const CalibrationPlan& plan, Transfer transfer, const Conclusion& conclusion);
// Every conclusion by token transfer and then, where possible, by loss transfer.
std::vector<Attribution> Attribute(const CalibrationPlan& plan);

// For each conclusion that depends on q: the q where its truth changes, all else assumed.
Table BreakEvenTable();

// The whole answer as text: the distance from the measured size, the break-even values of q, what was
// measured and what stays assumed, each conclusion assumed and measured, and what each part of the
// calibration does alone. Beyond kMostSizeRatio a sensitivity analysis, without verdicts.
std::string ConclusionsText(const CalibrationPlan& plan, const std::vector<Attribution>& answer);

// One line per conclusion and part ("all" first), with header; margins at full precision.
std::string ConclusionsCsv(const std::vector<Attribution>& answer);

// A scenario of a table, as the table names it; of a search, what its nodes were counted for.
struct NamedScenario {
  struct Sought {
    Target target;
    double at_least;  // FLOP
    int64_t most_nodes;
  };
  std::string name;
  Scenario scenario;
  std::optional<Sought> sought = std::nullopt;
};
// C_local or C_quality of a scenario, FLOP, or the fewest nodes of a search (infinite: not within its
// most), assumed beside measured with its interval.
struct MeasuredNumber {
  std::string scenario, number;
  Transfer transfer;
  double assumed, low, point, high;
  bool nodes = false;
};
// C_local and, where counted, C_quality of each scenario, or its nodes, by each transfer that is
// possible. A search is counted anew for 200 draws, not 10,000.
std::vector<MeasuredNumber> MeasureScenarios(const CalibrationPlan& plan,
                                             const std::vector<NamedScenario>& rows);
std::string MeasuredTable(const std::vector<MeasuredNumber>& numbers);

// {"plan_sha256":...,"codec":...,"conclusions":[...],"scenarios":[...]}: the same as JSON.
std::string CalibrationJson(const CalibrationPlan& plan, const std::vector<Attribution>& answer,
                            const std::vector<MeasuredNumber>& numbers);
std::string_view TransferName(Transfer transfer);  // "tokens", "loss"

}  // namespace longhaul::simulator
