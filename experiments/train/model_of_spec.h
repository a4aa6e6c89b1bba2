#pragma once

#include <cstdint>
#include <vector>

#include "experiments/spec/spec.h"
#include "pp_group/schedule/clock.h"

namespace longhaul {

// Floating-point operations of a forward pass of the stage over one micro-batch, multiply and add
// counted as two: 2 for each weight that a token meets (of experts two of all; an embedding is
// looked up, the head is not), and 4 T D a block for attention, the masked half with it. A backward
// pass has twice as many, half of them for weight gradients.
double ForwardFlops(const RunSpec& spec, int64_t stage);

// What [compute] says of each stage, at a group_speed of 1; needs the table. Backward passes that
// the table gives in seconds are one piece, as workers sleep it: all of it before the gradient goes
// on.
std::vector<PipelineCosts::Stage> StageSeconds(const RunSpec& spec);

}  // namespace longhaul
