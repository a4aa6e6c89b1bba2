#include "plugin/core/waits.h"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace longhaul {

void WaitTable::Said(int rank, int waits_for, std::string what, absl::Duration now) {
  waits_[rank] = {waits_for, std::move(what), now};
}

std::string WaitTable::Chain(int rank, int self, absl::Duration fresh, absl::Duration now) const {
  std::string chain;
  std::set<int> seen = {self};
  while (seen.insert(rank).second) {
    const auto found = waits_.find(rank);
    if (found == waits_.end() || now - found->second.said > fresh) return chain;
    const Wait& wait = found->second;
    chain += fmt::format("{} rank {} waits for rank {} ({}), as it said {} ago",
                         chain.empty() ? ":" : ",", rank, wait.waits_for, wait.what,
                         absl::FormatDuration(absl::Trunc(now - wait.said, absl::Milliseconds(1))));
    rank = wait.waits_for;
  }
  return chain + fmt::format(": they wait for each other in a circle");
}

}  // namespace longhaul
