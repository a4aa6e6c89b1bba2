#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/elastic/round_store.h"
#include "experiments/elastic/state_swarm.h"
#include "plugin/swarm/swarm.h"

namespace longhaul {

// The groups that take a state at the same time as this one, as one stage of it sees them: each
// gives the others what it has of the common part. Of two the one of the higher group dials.
class OtherJoiners {
 public:
  // Of state.other_joiners, for stage state.stage of `group`. Borrows both.
  OtherJoiners(const SharedState& state, int group, RoundStore& store)
      : state_(state), group_(group), store_(store) {}

  // From where they may come.
  std::vector<std::string> Ips();
  // Tells them where this one fetches the common part.
  void Tell(const Fetch& fetch);
  // Adds those that have begun to fetch since the last call.
  void Meet(Fetch& fetch);
  // From where bytes of theirs come, by group; without a port where they dial.
  const std::map<int, SwarmAddress>& addresses() const { return addresses_; }

 private:
  std::string TakingKey(int group) const;

  const SharedState& state_;
  const int group_;
  RoundStore& store_;
  std::map<int, SwarmAddress> addresses_;
  std::map<int, std::string> unmet_;  // those to dial, and their keys
};

}  // namespace longhaul
