// In place of state_giver.cc and state_taker.cc where there is no libtorrent.
#include "experiments/elastic/state_swarm.h"

namespace longhaul {
namespace {

absl::Status Absent() {
  return absl::FailedPreconditionError(
      "this longhaul has no swarm: it was built without libtorrent-rasterbar");
}

}  // namespace

bool SwarmIsBuilt() { return false; }

absl::StatusOr<std::unique_ptr<StateGiver>> StateGiver::Start(SharedState, int, Lives,
                                                              c10::intrusive_ptr<c10d::Store>, int,
                                                              int) {
  return Absent();
}

absl::StatusOr<StateTaken> TakeStateFromAll(const SharedState&, int, int, absl::Duration,
                                            RoundStore&) {
  return Absent();
}

}  // namespace longhaul
