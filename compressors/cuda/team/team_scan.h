#pragma once

#include "compressors/cuda/team/team.h"

namespace longhaul {

template <typename T, int kWarps>
struct WarpTotals {
  T warp[kWarps];
};

// before[t]: the sum of own[0 .. t - 1] of the threads of kWarps warps; answers the sum of all.
template <typename T, int kWarps, class Team, class Own>
LONGHAUL_TEXT T SumsBefore(Team& team, const Own& own, Own& before) {
  typename Team::template Own<int> source;
  auto sum = own;
  LONGHAUL_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    team.Each([&](int t) { source[t] = t % kWarp >= step ? t % kWarp - step : 0; });
    auto lower = team.From(sum, source);
    team.Each([&](int t) { sum[t] += t % kWarp >= step ? lower[t] : 0; });
  }
  if constexpr (kWarps == 1) {
    team.Each([&](int t) {
      before[t] = sum[t] - own[t];
      source[t] = kWarp - 1;
    });
    return team.From(sum, source)[team.thread()];
  }
  typename Team::template Shared<WarpTotals<T, kWarps>> totals;
  team.Phase([&](int t) {
    if (t % kWarp == kWarp - 1) totals->warp[t / kWarp] = sum[t];
  });
  Own all;
  team.Phase([&](int t) {
    before[t] = sum[t] - own[t];
    all[t] = 0;
    LONGHAUL_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      if (w < t / kWarp) before[t] += totals->warp[w];
      all[t] += totals->warp[w];
    }
  });
  return all[team.thread()];
}

}  // namespace longhaul
