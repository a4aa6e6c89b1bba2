#include "pp_group/state/checkpoint_writer.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace longhaul {

CheckpointWriter::CheckpointWriter(std::string directory, int64_t keep,
                                   std::function<absl::Duration()> now, WriteFile write)
    : directory_(std::move(directory)),
      keep_(keep),
      now_(std::move(now)),
      write_(std::move(write)) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status CheckpointWriter::Begin(std::vector<Checkpoint> checkpoints) {
  RETURN_IF_ERROR(Finish());
  {
    const absl::MutexLock lock(&mutex_);
    queued_ = std::move(checkpoints);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Poll() {
  const absl::MutexLock lock(&mutex_);
  return failed_;
}

absl::Status CheckpointWriter::Finish() {
  const absl::Duration start = now_();
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &CheckpointWriter::Idle));
  times_.waited += now_() - start;
  return failed_;
}

CheckpointWriter::Times CheckpointWriter::times() {
  const absl::MutexLock lock(&mutex_);
  return times_;
}

void CheckpointWriter::Work() {
  for (;;) {
    std::vector<Checkpoint> taken;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](CheckpointWriter* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
            return !self->queued_.empty() || self->ends_;
          },
          this));
      if (queued_.empty()) return;
      taken = std::exchange(queued_, {});
      busy_ = true;
    }
    const absl::Duration start = now_();
    absl::Status status;
    for (Checkpoint& checkpoint : taken) {
      if (status.ok()) status = write_(directory_, checkpoint, keep_);
      checkpoint.sections.clear();  // the memory is free as soon as the file is there
    }
    const absl::MutexLock lock(&mutex_);
    busy_ = false;
    if (failed_.ok()) failed_ = status;
    if (!status.ok()) continue;
    ++times_.written;
    times_.longest = std::max(times_.longest, now_() - start);
  }
}

}  // namespace longhaul
