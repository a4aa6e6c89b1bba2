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

}  // namespace longhaul
