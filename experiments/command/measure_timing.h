#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/command/output.h"

namespace longhaul {

struct TimingArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string results;  // "": results/<the grid's name>
  int jobs;             // runs at a time; 0: as many as the cores hold
};

// `measure` of a file with a [timing] table: runs the grid's cells, resumable, and prints step
// times against P2, where steps go and which codecs pay.
absl::Status MeasureTiming(const TimingArguments& arguments, CommandOutput& out);

}  // namespace longhaul
