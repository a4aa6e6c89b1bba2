#include "plugin/core/host_coder.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "compressors/catalog.h"

namespace longhaul {
namespace {

thread_local const void* at_work_for = nullptr;  // whose thread this is

// One encode, step by step: all pieces but the first few find their packet on its way.
class EncodeRun {
 public:
  EncodeRun(EncodeJob job, BufferPool* pool, const Clock* clock)
      : job_(std::move(job)), pool_(pool), clock_(clock) {}

  void Refuse(absl::Status why) {
    job_.update({.frame = {}, .last = true, .status = std::move(why), .time = time_});
  }

  bool Step() {
    if (job_.abandoned && job_.abandoned()) {
      Refuse(absl::CancelledError("no longer wanted"));
      return false;
    }
    const absl::Duration start = clock_->Now();
    EncodeUpdate update;
    if (buffer_ == nullptr) update.frame = Begin();
    const absl::StatusOr<size_t> ready = Encode();
    time_ += clock_->Now() - start;
    if (!ready.ok()) {
      Refuse(ready.status());
      return false;
    }
    if (update.frame) update.frame->bytes = buffer_->bytes();
    update.ready_bytes = *ready;
    update.last = *ready == buffer_->bytes().size();
    update.time = time_;
    if (update.last && job_.inspect) job_.inspect(buffer_->bytes());
    const bool more = !update.last;
    job_.update(std::move(update));
    return more;
  }

 private:
  OutFrame Begin() {
    const size_t most = job_.codec->MaxFrameBytes(job_.x.shape, job_.x.dtype);
    buffer_ = std::make_shared<PooledBuffer>(pool_->Acquire(most));
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
  BufferPool* const pool_;
  const Clock* const clock_;
  std::shared_ptr<PooledBuffer> buffer_;
  std::optional<PieceWriter> writer_;
  absl::Duration time_;
};

absl::Status DecodeNow(const DecodeJob& job) {
  if (job.reader != nullptr) return job.reader->Reach(job.reach);
  if (job.receiver != nullptr) return job.receiver->Decode(job.frame, job.x);
  return DecodeFrame(job.frame, job.x);
}

}  // namespace

// Steps in a queue and the threads that take them.
class HostCoder::Workers final : public std::enable_shared_from_this<HostCoder::Workers> {
 public:
  explicit Workers(size_t most) : most_(most) {}

  struct Entry {
    Step step;
    absl::AnyInvocable<void(absl::Status)> refuse;
  };

  bool inline_only() const { return most_ == 0; }

  void Add(Entry entry) {
    const std::lock_guard lock(mu_);
    queue_.push_back(std::move(entry));
    if (idle_ == 0 && threads_.size() < most_) {
      threads_.emplace_back([self = shared_from_this()] { self->Run(); });
    }
    changed_.notify_one();
  }

  void Drain() {
    const size_t own = at_work_for == this ? 1 : 0;  // called from a callback
    std::unique_lock lock(mu_);
    ++draining_;
    changed_.notify_all();
    finished_.wait(lock, [&] { return queue_.empty() && working_ <= own; });
    --draining_;
  }

  void End() {
    {
      const std::lock_guard lock(mu_);
      ending_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) {
      // The last who held the coder may be a callback of its own.
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
  }

 private:
  void Run() {
    at_work_for = this;
    std::unique_lock lock(mu_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      --idle_;
      if (queue_.empty()) return;
      Entry entry = std::move(queue_.front());
      queue_.pop_front();
      ++working_;
      const bool refused = draining_ > 0;
      lock.unlock();
      bool more = false;
      if (refused) {
        entry.refuse(absl::CancelledError("the node has ended"));
      } else {
        more = entry.step();
      }
      if (!more) entry = {};  // what it holds goes before it counts as ended
      lock.lock();
      if (more) queue_.push_back(std::move(entry));
      --working_;
      finished_.notify_all();
    }
  }

  const size_t most_;
  std::mutex mu_;
  std::condition_variable changed_;   // for threads
  std::condition_variable finished_;  // for Drain
  std::deque<Entry> queue_;           // from here on under mu_
  size_t idle_ = 0, working_ = 0, draining_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

HostCoder::HostCoder(int threads, BufferPool* pool, const Clock* clock)
    : pool_(pool),
      clock_(clock),
      workers_(std::make_shared<Workers>(static_cast<size_t>(std::max(0, threads)))) {}

HostCoder::~HostCoder() { workers_->End(); }

void HostCoder::Drain() { workers_->Drain(); }

void HostCoder::Do(size_t elements, Step step, absl::AnyInvocable<void(absl::Status)> refuse) {
  if (workers_->inline_only() || elements < kWorthHandingOver) {
    while (step()) {
    }
    return;
  }
  workers_->Add({std::move(step), std::move(refuse)});
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
        shared->done(std::move(status), clock->Now() - start);
        return false;
      },
      [shared](absl::Status why) { shared->done(std::move(why), absl::ZeroDuration()); });
}

}  // namespace longhaul
