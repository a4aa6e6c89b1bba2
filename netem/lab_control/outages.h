#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

// Who keeps which path down, on the caller's clock. An outage ends by itself and ends nothing but
// itself: a path is up again once the last of its outages is over and nobody took it down without
// an end. Thread safety: none.
class Outages {
 public:
  using Pair = std::pair<int, int>;  // from, to

  void TakeDown(Pair path) { paths_[path].taken_down = true; }
  // Ends everything that keeps the path down, its outages too.
  void BringUp(Pair path) { paths_.erase(path); }
  void Begin(Pair path, absl::Time until) { paths_[path].ends.push_back(until); }

  bool IsDown(Pair path) const { return paths_.contains(path); }
  // When the next outage ends.
  std::optional<absl::Time> next_end() const;
  // Forgets the outages that are over by then, and says of which paths.
  std::vector<Pair> EndBy(absl::Time now);

 private:
  struct Keepers {
    bool taken_down = false;
    std::vector<absl::Time> ends;
  };
  std::map<Pair, Keepers> paths_;  // those that are down
};

}  // namespace longhaul
