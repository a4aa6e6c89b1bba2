#include "experiments/elastic/other_joiners.h"

#include "absl/strings/str_cat.h"

namespace longhaul {

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
