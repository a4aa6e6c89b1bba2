#include "plugin/core/host_coder.h"

#include <utility>

#include "compressors/catalog.h"
#include "compressors/kernels/convert.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

// One encode, step by step: all pieces but the first few find their packet on its way.
class EncodeRun {
 public:
  EncodeRun(EncodeJob job, BufferPool pool, const Clock* clock)
      : job_(std::move(job)), pool_(std::move(pool)), clock_(clock) {}

  void Refuse(absl::Status why) {
    job_.update({.frame = {}, .last = true, .status = std::move(why), .time = time_});
  }

  bool Step() {
    if (whole_) return Inspect();
    if (job_.abandoned && job_.abandoned()) {
      Refuse(absl::CancelledError("no longer wanted"));
      return false;
    }
    const absl::Duration start = clock_->Now();
    EncodeUpdate update;
    if (buffer_ == nullptr) {
      if (job_.raw_from && LargestBits(job_.x) >= BitsOf(*job_.raw_from)) return SendRaw();
      update.frame = Begin();
    }
    const absl::StatusOr<size_t> ready = Encode();
    time_ += clock_->Now() - start;
    if (!ready.ok()) {
      if (job_.raw_from && !writer_ && absl::IsInvalidArgument(ready.status())) return SendRaw();
      Refuse(ready.status());
      return false;
    }
    if (update.frame) update.frame->bytes = buffer_->bytes();
    update.ready_bytes = *ready;
    whole_ = *ready == buffer_->bytes().size();
    update.last = whole_ && !job_.inspect;
    update.time = time_;
    const bool more = !update.last;
    job_.update(std::move(update));
    return more;
  }

 private:
  bool SendRaw() {
    job_.update({.frame = {},
                 .ready_bytes = job_.x.shape.elements() * BytesPerElement(job_.x.dtype),
                 .last = true,
                 .raw = true,
                 .status = {},
                 .time = time_});
    return false;
  }

  // Of a frame that is on its way: x and the frame stay as they are until the last update.
  bool Inspect() {
    job_.inspect(buffer_->bytes(), job_.x);
    job_.update({.frame = {},
                 .ready_bytes = buffer_->bytes().size(),
                 .last = true,
                 .status = {},
                 .time = time_});
    return false;
  }

  OutFrame Begin() {
    const size_t most = job_.codec->MaxFrameBytes(job_.x.shape, job_.x.dtype);
    buffer_ = std::make_shared<PooledBuffer>(pool_.Acquire(most));
    OutFrame frame{.owner = buffer_, .bytes = {}, .order = {}};
    if (job_.state != nullptr || most <= kWholeFrameBytes) return frame;
    std::unique_ptr<FramePieces> pieces = job_.codec->Pieces(job_.x.shape, job_.x.dtype);
    if (pieces == nullptr) return frame;
    frame.order = StreamOrder(*pieces);
    writer_.emplace(std::move(pieces), job_.x, buffer_->bytes());
    return frame;
  }

  absl::StatusOr<size_t> Encode() {
    if (writer_) return writer_->Next();
    const absl::StatusOr<size_t> bytes =
        job_.codec->Encode(job_.x, job_.seed, job_.state, buffer_->bytes());
    if (bytes.ok()) buffer_->Shrink(*bytes);
    return bytes;
  }

  EncodeJob job_;
  BufferPool pool_;
  const Clock* const clock_;
  std::shared_ptr<PooledBuffer> buffer_;
  std::optional<PieceWriter> writer_;
  bool whole_ = false;  // the frame is
  absl::Duration time_;
};

absl::Status DecodeNow(const DecodeJob& job) {
  if (job.reader != nullptr) return job.reader->Reach(job.reach);
  if (job.receiver != nullptr) return job.receiver->Decode(job.frame, job.x);
  return DecodeFrame(job.frame, job.x);
}

}  // namespace

HostCoder::HostCoder(int threads, BufferPool pool, const Clock* clock)
    : pool_(std::move(pool)), clock_(clock), threads_(threads) {}

void HostCoder::Do(size_t elements, StepThreads::Step step, StepThreads::Refuse refuse) {
  if (threads_.none() || elements < kWorthHandingOver) {
    while (step()) {
    }
    return;
  }
  threads_.Add(std::move(step), std::move(refuse));
}

void HostCoder::Encode(EncodeJob job) {
  const size_t elements = job.x.shape.elements();
  const auto run = std::make_shared<EncodeRun>(std::move(job), pool_, clock_);
  Do(
      elements, [run] { return run->Step(); },
      [run](absl::Status why) { run->Refuse(std::move(why)); });
}

void HostCoder::Decode(DecodeJob job) {
  const size_t elements = job.x.shape.elements();
  const auto shared = std::make_shared<DecodeJob>(std::move(job));
  Do(
      elements,
      [shared, clock = clock_] {
        const absl::Duration start = clock->Now();
        absl::Status status = DecodeNow(*shared);
        shared->done({std::move(status), clock->Now() - start});
        return false;
      },
      [shared](absl::Status why) {
        shared->done({std::move(why), absl::ZeroDuration()});
      });
}

}  // namespace longhaul
