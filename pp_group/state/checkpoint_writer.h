#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "pp_group/state/checkpoint.h"

namespace longhaul {

// Writes checkpoints on a thread of its own, so that training goes on while files are written. At
// most one set is on its way: memory holds one snapshot beside the training's own state. One thread
// calls; a write that failed is told by every call after it, and nothing is written any more.
class CheckpointWriter {
 public:
  // As WriteCheckpoint; tests pass one that waits or fails.
  using WriteFile = std::function<absl::Status(const std::string& directory,
                                               const Checkpoint& checkpoint, int64_t keep)>;

  // `keep`: steps of which each rank's file is left, at least 1. `now`: the process's clock.
  CheckpointWriter(std::string directory, int64_t keep, std::function<absl::Duration()> now,
                   WriteFile write = WriteCheckpoint);
  // Waits for what is on its way: what had been taken is written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Takes the local ranks' checkpoints of one step. Waits first where those before are still being
  // written. The error of those before, or OK.
  absl::Status Begin(std::vector<Checkpoint> checkpoints);
  // The error of what has been written so far, without waiting.
  absl::Status Poll();
  // Waits until everything is written.
  absl::Status Finish();

  struct Times {
    int64_t written = 0;                            // sets
    absl::Duration longest = absl::ZeroDuration();  // of one set, fsync included
    absl::Duration waited = absl::ZeroDuration();   // by Begin and Finish, together
  };
  Times times();

 private:
  void Work();
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return queued_.empty() && !busy_; }

  const std::string directory_;
  const int64_t keep_;
  const std::function<absl::Duration()> now_;
  const WriteFile write_;
  absl::Mutex mutex_;
  std::vector<Checkpoint> queued_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  Times times_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // from the first Begin on
};

}  // namespace longhaul
