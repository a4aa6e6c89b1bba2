#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "pp_group/state/checkpoint.h"

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

}  // namespace longhaul
