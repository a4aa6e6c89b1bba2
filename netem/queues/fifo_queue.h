#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "netem/queues/queued_frame.h"
#include "netem/topology/queue_capacity.h"

namespace longhaul {

// First in, first out; what does not fit is dropped at the tail.
class FifoQueue {
 public:
  explicit FifoQueue(const QueueCapacity& capacity = {}) : capacity_(capacity) {}

  void Enqueue(const QueuedFrame& frame, std::vector<DroppedFrame>& dropped) {
    if (!capacity_.Holds(packets_ + frame.packets, bytes_ + frame.wire_bytes)) {
      dropped.push_back({frame, DropReason::kFull});
      return;
    }
    bytes_ += frame.wire_bytes;
    packets_ += frame.packets;
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
    packets_ -= frame.packets;
    return frame;
  }

  int64_t bytes() const { return bytes_; }
  int64_t packets() const { return packets_; }
  bool empty() const { return frames_.empty(); }

 private:
  QueueCapacity capacity_;
  int64_t bytes_ = 0, packets_ = 0;
  std::deque<QueuedFrame> frames_;
};

}  // namespace longhaul
