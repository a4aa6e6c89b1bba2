#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "netem/emulator.h"

namespace longhaul {

// What the ranks of a run do, without training: each sleeps as long as [compute] says of its actions,
// sends messages of the planned bytes over TCP connections of its own, one for each rank that it
// sends to, waits for those that it needs, and meets its peers of other groups when the outer plan
// says so. A message goes while its rank does something else. Nothing polls and nothing reads a
// clock but to say when a step ended, so it may run where computing takes no time (netem/guest).
//
// When each rank of the run ended each step, in seconds since all began: [workers][steps].
// Node i of the emulator is rank i. Call it with a spec that SimulatedClock took.
// Unimplemented: a tied head. Errors of sockets, with the ranks.
absl::StatusOr<std::vector<std::vector<double>>> PlayRun(const RunSpec& spec,
                                                         const Emulator& emulator);

}  // namespace longhaul
