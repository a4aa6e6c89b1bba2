#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/command/output.h"

namespace longhaul {

// A campaign whose runs are not trained but read from `losses`, a losses.csv of a report: final
// losses by arm and seed. What follows, record, table and page, is as of trained runs, but for what
// only training shows (wire, step times, NMSE).
struct LossesArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string losses;
  std::string results;  // "": results/<campaign's name>-from-losses
};

// InvalidArgument, with file and line: not such a file; an arm, a seed, codecs or a number of
// tokens that differ from the plan's; a planned run without a row, or a row without a planned run.
absl::Status MeasureFromLosses(const LossesArguments& arguments, CommandOutput& out);

}  // namespace longhaul
