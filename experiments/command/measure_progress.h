#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/status/status.h"
#include "experiments/run/run_pool.h"

namespace longhaul {

// `jobs` runs at a time, whatever they need; 0: as many as the cores hold.
PoolLimits LimitsOf(int jobs);

// Trains what the record has not finished of `runs`, with a line of progress on `out`, which first
// says how many are done and who else is at work. Errors as RunAll.
absl::Status TrainTheRest(Record& record, int64_t experiment, const std::vector<PlannedRun>& runs,
                          const PoolLimits& limits, std::FILE* out);

}  // namespace longhaul
