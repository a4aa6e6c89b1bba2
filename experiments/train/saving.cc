#include "experiments/train/saving.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/train/rank_events.h"

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

Saving::Saving(const RunLoopOptions& options, std::function<absl::Duration()> now)
    : writer(
          options.checkpoint_directory, options.checkpoints_kept, std::move(now),
          options.membership == nullptr
              ? CheckpointWriter::WriteFile(WriteCheckpoint)
              : [this](const std::string& directory, const Checkpoint& checkpoint, int64_t keep) {
                  return forgiving.Write(directory, checkpoint, keep);
                }) {}

absl::Status TellUnwritten(Saving& saving, const LocalTelemetry& rank, EventSink& sink) {
  absl::Status first;
  for (const auto& [step, why] : saving.forgiving.TakeFailures()) {
    if (first.ok()) first = why;
    EmitFault(
        {.what = FaultKind::kDiskFull,
         .where = {.kind = FaultPlace::Kind::kWorker, .group = rank.group, .stage = rank.stage}},
        step, "no checkpoint: " + std::string(why.message().substr(0, 300)), sink);
  }
  return first;
}

void EmitWriting(Saving& saving, int rank, EventSink& sink) {
  const CheckpointWriter::Times times = saving.writer.times();
  if (times.written == 0) return;
  sink.Emit({{"event", "fact"},
             {"key", absl::StrCat("checkpoints_of_rank_", rank)},
             {"value", absl::StrFormat("%d written, the longest in %.3f s; training stood still "
                                       "%.3f s to copy states, %.3f s for the one before",
                                       times.written, Seconds(times.longest),
                                       Seconds(saving.copying), Seconds(times.waited))}});
}

}  // namespace longhaul
