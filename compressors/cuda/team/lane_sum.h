#pragma once

#include "compressors/cuda/team/team.h"

namespace longhaul {

// The end of a sum of tree_sum.h, a lane for each thread: j with j + 16, then 8, 4, 2, 1. All get
// lane 0's: a butterfly gives it to them, because a + b and b + a are the same float.
template <class Team>
LONGHAUL_TEXT void SumLanes(Team& team, typename Team::template Own<float>& lane) {
  LONGHAUL_UNROLL
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    auto other = team.Xor(lane, mask);
    team.Each([&](int t) { lane[t] = lane[t] + other[t]; });
  }
}

}  // namespace longhaul
