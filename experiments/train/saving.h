#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "experiments/train/event_stream.h"
#include "experiments/train/local_telemetry.h"
#include "experiments/train/run_loop.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/state/checkpoint_writer.h"

namespace longhaul {

// How checkpoints are written where groups come and go: one that cannot be written costs nothing
// but itself, and a run that is resumed goes on from the one before. Thread safe.
class ForgivingWrites {
 public:
  // The checkpoint of `step` goes below `directory` instead.
  void Divert(int64_t step, std::string directory);
  // As WriteCheckpoint, but always OK.
  absl::Status Write(const std::string& directory, const Checkpoint& checkpoint, int64_t keep);
  // Steps whose checkpoint could not be written, and why, since the last call.
  std::vector<std::pair<int64_t, absl::Status>> TakeFailures();

 private:
  absl::Mutex mutex_;
  std::map<int64_t, std::string> diverted_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int64_t, absl::Status>> failures_ ABSL_GUARDED_BY(mutex_);
};

// What writes checkpoints.
struct Saving {
  ForgivingWrites forgiving;
  CheckpointWriter writer;
  absl::Duration copying = absl::ZeroDuration();  // of states, in which training stands still

  // `now`: of a monotonic clock.
  Saving(const RunLoopOptions& options, std::function<absl::Duration()> now);
};

// Tells of checkpoints that could not be written where groups come and go; the first of them.
absl::Status TellUnwritten(Saving& saving, const LocalTelemetry& rank, EventSink& sink);

// Tells how long files took to write, and how long training stood still for them.
void EmitWriting(Saving& saving, int rank, EventSink& sink);

}  // namespace longhaul
