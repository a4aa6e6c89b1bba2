#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "netem/queues/queued_frame.h"

namespace longhaul {

// First in, first out; what does not fit is dropped at the tail.
class FifoQueue {
 public:
  explicit FifoQueue(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void Enqueue(const QueuedFrame& frame, std::vector<DroppedFrame>& dropped) {
    if (bytes_ + frame.wire_bytes > limit_bytes_) {
      dropped.push_back({frame, DropReason::kFull});
      return;
    }
    bytes_ += frame.wire_bytes;
    frames_.push_back(frame);
  }

  std::optional<QueuedFrame> Dequeue(int64_t /*now_ns*/, std::vector<DroppedFrame>& /*dropped*/) {
    return Pop();
  }

  std::optional<QueuedFrame> Pop() {
    if (frames_.empty()) return std::nullopt;
    const QueuedFrame frame = frames_.front();
    frames_.pop_front();
    bytes_ -= frame.wire_bytes;
    return frame;
  }

  int64_t bytes() const { return bytes_; }
  bool empty() const { return frames_.empty(); }
  void SetLimit(int64_t limit_bytes) { limit_bytes_ = limit_bytes; }

 private:
  int64_t limit_bytes_;
  int64_t bytes_ = 0;
  std::deque<QueuedFrame> frames_;
};

}  // namespace longhaul
