#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/schedule.h"

namespace longhaul {

// Proves that the programs of all stages (programs[s] is stage s's) run to their end:
//   - every micro-batch 0..M-1 has exactly one forward and one backward on every stage, the
//     backward after the forward;
//   - every receive has its send, and messages of one direction between two neighbours are sent in
//     the order in which they are received (channels are FIFO);
//   - no cycle: some order of all actions meets every dependency (sends never block).
// InvalidArgument names the first action that breaks a rule.
absl::Status CheckSchedule(const std::vector<Program>& programs);

// All actions of all stages in one order that meets every dependency, the same on every host: the
// order in which one thread may run any subset of the stages and never wait for itself.
// InvalidArgument: there is none; names the actions at which the stages are stuck.
absl::StatusOr<Program> GlobalOrder(const std::vector<Program>& programs);

// The largest number of micro-batches of one stage whose forward has run and backward has not.
int PeakActivations(const Program& program);

}  // namespace longhaul
