#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/simulator/scenario_file.h"

namespace longhaul::simulator {

// [break_even]: between which values of one factor a quantity reaches a bar, or what another scenario has.
struct BreakEven {
  std::string factor;  // of [assume], or a key of the file that holds a number: "network.wan_mbps"
  double from = 0, to = 0;
  std::string target;         // a column of table_columns.h
  std::optional<double> bar;  // in the column's unit; none: what `beats` has with the same factor
  std::string beats;          // the name of a [[scenario]]
};

// Where the truth of "target >= bar" changes as the factor goes from `from` to `to`.
struct BreakEvenRow {
  std::vector<size_t> at;       // value index per axis
  bool at_from = false;         // the truth at `from`
  std::vector<double> changes;  // ascending, each within 1e-9 of (to - from) of where it changes
  double margin_from = 0, margin_to = 0;  // target over bar at either end; infinite over a bar of 0
};

inline constexpr int kBreakEvenSteps = 1000;  // the factor's range is looked at in so many steps
inline constexpr size_t kMostBreakEven = 10'000;  // scenarios

// The changes of `holds` over from..to, by kBreakEvenSteps equal steps and bisection within those
// whose ends differ. Two changes within one step are not seen.
std::vector<double> ChangesOf(const std::function<bool(double)>& holds, double from, double to);

// The table [break_even]; nothing where the file has none. InvalidArgument with file and line: an unknown
// factor, column or scenario, a factor that is a list in this file, a range upside down or out of the
// factor's bounds, bar and `beats` both or neither.
absl::StatusOr<std::optional<BreakEven>> ReadBreakEven(const TomlValue& root,
                                                       const ScenarioFile& file);

// One row for each scenario of the file, in order.
absl::StatusOr<std::vector<BreakEvenRow>> FindBreakEven(const ScenarioFile& file,
                                                        const BreakEven& search);

std::string BreakEvenText(const ScenarioFile& file, const BreakEven& search,
                          const std::vector<BreakEvenRow>& rows);
// axes, factor, from, to, holds_at_from, margin_from, margin_to, changes (joined by spaces).
std::string BreakEvenCsv(const ScenarioFile& file, const BreakEven& search,
                         const std::vector<BreakEvenRow>& rows);
std::string BreakEvenJson(const ScenarioFile& file, const BreakEven& search,
                          const std::vector<BreakEvenRow>& rows);

}  // namespace longhaul::simulator
