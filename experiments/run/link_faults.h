#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/spec/fault_script.h"
#include "netem/emulator.h"

namespace longhaul {

// Does a drawn script's faults of links to the lab's emulator. Faults of one path that overlap lie
// on each other in the order of the script; when one ends, the path is what the others make of what
// it was at first. One thread. The emulator must outlive it.
class LinkFaults {
 public:
  LinkFaults(std::vector<Fault> drawn, Emulator& emulator);

  // By place in the script; a fault that has struck, or has ended, is left as it is. `now` of the
  // monotonic clock: a fault with for_s ends so much later (MendDue).
  absl::Status Strike(size_t fault, absl::Duration now);
  absl::Status Mend(size_t fault);

  // When the next fault ends by time; InfiniteDuration: none does.
  absl::Duration next_end() const;
  absl::Status MendDue(absl::Duration now);
  // Every path is what it was at first.
  absl::Status MendAll();

 private:
  absl::Status Apply(size_t fault);  // to its paths, with all that is active

  const std::vector<Fault> drawn_;
  Emulator& emulator_;
  const Topology nominal_;
  std::set<size_t> struck_;                  // ever
  std::map<size_t, absl::Duration> active_;  // when it ends by time
};

}  // namespace longhaul
