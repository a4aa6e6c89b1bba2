#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/elastic/round_store.h"
#include "experiments/elastic/state_swarm.h"
#include "plugin/swarm/manifest.h"
#include "plugin/swarm/swarm.h"
#include "plugin/swarm/swarm_address.h"

namespace longhaul {

// What members say in the store of the state that they share (state_swarm.h).

// One part of what a giver offers.
struct Offer {
  std::string digest;  // of its manifest
  SwarmAddress address;
};
// "DIGEST IP:PORT" of each part, as far as they are that.
std::vector<Offer> OffersIn(const std::string& said);

// The digest of the first part, which is the same on all members, by place among them: where they
// differ, that of the most, and among equals the lowest place's. "": nobody offers.
std::string MostBelieved(const std::map<size_t, std::vector<Offer>>& offers);

// DataLoss: it has not this SHA-256, or is none.
absl::StatusOr<Manifest> ManifestFrom(const std::string& text, const std::string& digest);

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
