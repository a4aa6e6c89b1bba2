#include "experiments/elastic/state_offers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compressors/numbers/sha256.h"
#include "plugin/swarm/file_digest.h"

namespace longhaul {

std::vector<Offer> OffersIn(const std::string& said) {
  std::vector<Offer> offers;
  const std::vector<std::string> words = absl::StrSplit(said, ' ');
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const absl::StatusOr<SwarmAddress> address = ParseSwarmAddress(words[i + 1]);
    if (address.ok()) offers.push_back({words[i], *address});
  }
  return offers;
}

std::string MostBelieved(const std::map<size_t, std::vector<Offer>>& offers) {
  std::map<std::string, size_t> votes;
  for (const auto& [place, own] : offers) ++votes[own.front().digest];
  std::string best;
  for (const auto& [place, own] : offers) {
    const std::string& digest = own.front().digest;
    if (best.empty() || votes[digest] > votes[best]) best = digest;
  }
  return best;
}

absl::StatusOr<Manifest> ManifestFrom(const std::string& text, const std::string& digest) {
  if (Sha256Hex(text) == digest) return ParseManifest(text);
  return absl::DataLossError(
      absl::StrCat("the manifest in the store has not the SHA-256 ", digest, " of its key"));
}

std::string OtherJoiners::TakingKey(int group) const {
  return absl::StrCat("taking/", state_.step, "/", state_.stage, "/", group);
}

std::vector<std::string> OtherJoiners::Ips() {
  std::vector<std::string> ips;
  for (const auto& [group, life] : state_.other_joiners) {
    ips.push_back(store_.Get(absl::StrCat("join/", group, "/", life, "/", state_.stage)));
    addresses_[group] = {ips.back(), 0};
    if (group < group_) unmet_[group] = TakingKey(group);
  }
  return ips;
}

void OtherJoiners::Tell(const Fetch& fetch) {
  if (fetch.address()) store_.Set(TakingKey(group_), ToString(*fetch.address()));
}

void OtherJoiners::Meet(Fetch& fetch) {
  for (auto at = unmet_.begin(); at != unmet_.end();) {
    if (!store_.Has(at->second)) {
      ++at;
      continue;
    }
    const absl::StatusOr<SwarmAddress> address = ParseSwarmAddress(store_.Get(at->second));
    if (address.ok()) {
      addresses_[at->first] = *address;
      fetch.AddSource(*address);
    }
    at = unmet_.erase(at);
  }
}

}  // namespace longhaul
