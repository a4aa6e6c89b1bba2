#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// Where stages 1, 2, ... of `stages` begin so that the slowest stage takes least, and among such cuts
// the squares of the stages' seconds add up to least. `seconds` [blocks], each above 0; no more
// stages than blocks.
std::vector<int64_t> BalancedCuts(const std::vector<double>& seconds, int64_t stages);

// Seconds of each block of `spec`'s model, forward and backward in a step of one group.
struct BlockSeconds {
  std::vector<double> seconds;  // [blocks]
  int64_t blocks_of_stage = 1;  // of the largest stage that was measured: its blocks share its time
  std::string source;
};
// "block,seconds" and a line a block, in order. InvalidArgument: the line that is none, a block that
// is missing.
absl::StatusOr<BlockSeconds> ReadBlockSeconds(const std::string& file, const RunSpec& spec);
// From a run's record, the last one in `results` or `run`, if that is not 0: medians over its steps,
// the first tenth left out. The embedding counts for the first block, the head for the last.
// InvalidArgument: of another model or micro-batch, or one in which nothing was computed.
absl::StatusOr<BlockSeconds> MeasuredBlockSeconds(const std::string& results, int64_t run,
                                                  const RunSpec& spec);
std::string TextOf(const BlockSeconds& blocks);  // as ReadBlockSeconds takes it

}  // namespace longhaul
