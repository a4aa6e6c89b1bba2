#pragma once

#include <vector>

#include "plugin/core/group.h"
#include "tests/pp_group/training.h"

namespace longhaul {

// All ranks of `spec` over our backend in one process, the boundary groups with `codecs` and a
// state of theirs for each of `slots` micro-batches. Their memory goes into checkpoints.
std::vector<LocalRank> LoopbackRanks(const TrainSpec& spec, const CodecPolicy& codecs,
                                     int slots = 1);

// A whole run of `ranks` in this thread; fails the test on an error.
History RunOver(const TrainSpec& spec, std::vector<LocalRank> ranks);

}  // namespace longhaul
