#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"
#include "experiments/estimates/step_time_summary.h"
#include "experiments/estimates/table.h"
#include "experiments/record/record.h"

namespace longhaul {

// One cell of a timing grid over its repeats. Means over repeats; intervals are t at 95 %, none
// with one repeat.
struct TimingCell {
  std::string profile, codecs, schedule;
  int64_t stages = 1, groups = 1;
  int64_t repeats = 0;
  int64_t invalid = 0;  // runs whose links or bytes were out of bounds, or that failed
  Measured step_s;      // of the runs' medians
  Measured residual;    // ln(step / P2)
  double p1_s = 0, p2_s = 0, p3_s = 0;
  // Where a step goes, s; they add up to step_s (StepTime::alone_s).
  double compute_s = 0, bubble_s = 0, coding_s = 0, wire_s = 0, rest_s = 0;
  // Step without codecs over step with them, same links, schedule, S and G; above 1: the codec
  // pays. nullopt for the cell without codecs, or without one.
  std::optional<Measured> gain = std::nullopt;
  bool gain_disturbed = false;  // the times of one of both cells are
  std::optional<double> outer_s = std::nullopt, outer_predicted_s = std::nullopt;
  std::string note = {};         // why its times are disturbed; "" where they are not
  ResidualVerdict verdict = {};  // of `residual`; empty without a repeat
};

struct TimingFindings {
  std::vector<TimingCell> cells;  // in the order of their first runs
  // Over cells that are not disturbed: the median residual with an interval without assumptions on
  // its distribution. Of all with a repeat: how many verdicts there are.
  Measured median_residual;
  int64_t undisturbed = 0, within = 0, beyond = 0, not_judged = 0;
};

// Of runs that ended ok; of one (cell, seed) the last. InvalidArgument: a spec that cannot be read.
absl::StatusOr<TimingFindings> AnalyseTiming(const Record& record, int64_t experiment);

// "pays", "costs" or "no difference shown"; "no verdict: timing disturbed".
std::string_view GainVerdict(const TimingCell& cell);

// For programs in s, every number with its interval.
Table TimingTable(const TimingFindings& findings);

}  // namespace longhaul
