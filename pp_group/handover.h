#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "pp_group/local_rank.h"

namespace longhaul {

// What a group that joins takes over from one that stayed, right after an outer step: parameters,
// the outer step's start and momentum, AdamW's moments. What codecs remember starts anew.
void CopyState(const RankState& from, RankState* to);
// The same between processes; `to` and `from` hold the two ranks of one stage.
absl::Status SendState(const RankState& state, c10d::Backend& to, int peer);
absl::Status ReceiveState(RankState* state, c10d::Backend& from, int peer);

}  // namespace longhaul
