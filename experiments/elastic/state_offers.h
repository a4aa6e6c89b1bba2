#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugin/swarm/manifest.h"
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

}  // namespace longhaul
