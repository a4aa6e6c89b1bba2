#include "experiments/elastic/group_lives.h"

#include <algorithm>
#include <utility>

namespace longhaul {

GroupLives::GroupLives(int groups, const std::set<int64_t>& absent) {
  for (int g = 0; g < groups; ++g) {
    const bool gone = absent.contains(g);
    groups_[g] = {.lost = gone, .gone = gone, .holds = !gone};
  }
}

bool GroupLives::IsLostFor(int group, absl::Duration since, absl::Duration now) const {
  const Group& g = groups_.at(group);
  return g.lost && now - g.lost_at > since;
}

bool GroupLives::AnyHolds() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const auto& group) { return group.second.holds; });
}

GroupLives::Loss GroupLives::Lose(int group, absl::Duration now) {
  Group& g = groups_.at(group);
  if (std::exchange(g.lost, true)) return Loss::kNone;
  g.lost_at = now;
  return std::exchange(g.holds, false) ? Loss::kState : Loss::kLife;
}

void GroupLives::Leave(int group, absl::Duration now) {
  Group& g = groups_.at(group);
  g.gone = g.lost = true;
  g.holds = false;
  g.lost_at = now;
}

void GroupLives::Want(int group) { groups_.at(group).wanted = groups_.at(group).met = true; }

GroupLives::Next GroupLives::WhatNext(int group, absl::Duration now) {
  Group& g = groups_.at(group);
  const bool fruitful = std::exchange(g.met, false) || now - g.started > kLongLife;
  g.failed_starts = fruitful ? 0 : g.failed_starts + 1;
  const bool given_up = !g.gone && g.failed_starts > kMostFailedStarts;
  g.gone = g.gone || given_up;
  if (g.gone && !g.wanted) return given_up ? Next::kGiveUp : Next::kStay;
  g.gone = g.wanted = g.lost = false;
  g.started = now;
  ++g.life;
  return Next::kStart;
}

}  // namespace longhaul
