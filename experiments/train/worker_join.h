#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  LocalTelemetry rank;
  int life;  // of its group
};

// Unavailable: somebody did not come, or the store is not there.
absl::StatusOr<Joined> JoinRun(const RunSpec& spec, const WorkerPlace& place,
                               std::shared_ptr<Node> node);

// All ranks train the same: told as "attempt", with one number for all of them. In a lab whose
// groups come and go that is sure. InvalidArgument: this rank was started with another spec.
absl::Status AgreeOnTheRun(const RunSpec& spec, const WorkerPlace& place, const Joined& joined,
                           EventSink& sink);

}  // namespace longhaul
