#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "experiments/train/worker.h"

namespace longhaul {

// A rank that has met the others of its group and, where groups do not come and go, of its stage.
// Rank 0 serves the store; it must outlive the others' rendezvous, so it lives as long as the run.
// Where groups come and go it is served by a process of its own.
struct Joined {
  c10::intrusive_ptr<c10d::Store> store;
  std::vector<LocalTelemetry> stages;  // of this rank; where groups come and go one
  int life;                            // of its group
  const LocalTelemetry& rank() const { return stages.front(); }
};

// Unavailable: somebody did not come, or the store is not there.
absl::StatusOr<Joined> JoinRun(const RunSpec& spec, const WorkerPlace& place,
                               std::shared_ptr<Node> node);

// All ranks train the same: told as "attempt", with one number for all of them. In a lab whose
// groups come and go that is sure. InvalidArgument: this rank was started with another spec;
// FailedPrecondition with both hashes: a file that the spec names is another one on its host.
absl::Status AgreeOnTheRun(const RunSpec& spec, const WorkerPlace& place, const Joined& joined,
                           EventSink& sink);

// Ranks of one stage of some groups, which meet under this name in the store.
struct OuterPlace {
  std::string name;
  int stage, rank, size;
};
// Who does not come within `patience` is found by this; afterwards by its silence, however long a
// transfer lasts. Throws what c10d does.
c10::intrusive_ptr<ProcessGroupLonghaul> JoinOuter(const RunSpec& spec,
                                                   const c10::intrusive_ptr<c10d::Store>& store,
                                                   std::shared_ptr<Node> node, OuterPlace place,
                                                   absl::Duration patience);

}  // namespace longhaul
