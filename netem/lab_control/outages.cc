#include "netem/lab_control/outages.h"

#include <algorithm>

namespace longhaul {

std::optional<absl::Time> Outages::next_end() const {
  std::optional<absl::Time> next;
  for (const auto& [path, keepers] : paths_) {
    for (absl::Time end : keepers.ends) next = std::min(next.value_or(end), end);
  }
  return next;
}

std::vector<Outages::Pair> Outages::EndBy(absl::Time now) {
  std::vector<Pair> ended;
  for (auto it = paths_.begin(); it != paths_.end();) {
    Keepers& keepers = it->second;
    if (std::erase_if(keepers.ends, [&](absl::Time end) { return end <= now; }) > 0) {
      ended.push_back(it->first);
    }
    it = keepers.ends.empty() && !keepers.taken_down ? paths_.erase(it) : std::next(it);
  }
  return ended;
}

}  // namespace longhaul
