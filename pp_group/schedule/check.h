#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// Proves that a program runs to its end:
//   - every stage has, for every micro-batch 0..M-1, one forward, and then one B, or one I and
//     after it one W;
//   - every receive has its send, and messages of one kind from one rank to another are sent in the
//     order in which they are needed (channels are first in, first out);
//   - no cycle: some order of all actions meets every dependency (sends never block).
// InvalidArgument names the first action that breaks a rule.
absl::Status CheckProgram(const PipelineProgram& program);

// All actions of all ranks in one order that meets every dependency, the same on every host: the
// order in which one thread may run any subset of the ranks and never wait for itself.
// InvalidArgument: there is none; names the actions at which the ranks are stuck.
absl::StatusOr<Program> GlobalOrder(const PipelineProgram& program);

// What equal bits ask of a program that trains: every stage runs its F, and its B or I, in
// micro-batch order, because losses and gradients are summed as they come. W may come in any order:
// the executor holds one back until those of earlier micro-batches have run. InvalidArgument names
// the action.
absl::Status CheckMicrobatchOrder(const PipelineProgram& program);

// The largest number of (stage, micro-batch) pairs of one rank whose forward has run and whose
// parameters' gradient has not. I keeps what its W needs, and a W that is held back (see above)
// what it needs: that is what another order of W costs.
int PeakActivations(const Program& program);

}  // namespace longhaul
