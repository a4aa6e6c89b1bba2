#include "experiments/train/forgiving_writes.h"

namespace longhaul {

void ForgivingWrites::Divert(int64_t step, std::string directory) {
  const absl::MutexLock lock(&mutex_);
  diverted_[step] = std::move(directory);
}

absl::Status ForgivingWrites::Write(const std::string& directory, const Checkpoint& checkpoint,
                                    int64_t keep) {
  std::string place = directory;
  {
    const absl::MutexLock lock(&mutex_);
    const auto diverted = diverted_.find(checkpoint.step);
    if (diverted != diverted_.end()) place = diverted->second;
  }
  const absl::Status written = WriteCheckpoint(place, checkpoint, keep);
  if (written.ok()) return written;
  const absl::MutexLock lock(&mutex_);
  failures_.emplace_back(checkpoint.step, written);
  return absl::OkStatus();
}

std::vector<std::pair<int64_t, absl::Status>> ForgivingWrites::TakeFailures() {
  const absl::MutexLock lock(&mutex_);
  return std::exchange(failures_, {});
}

}  // namespace longhaul
