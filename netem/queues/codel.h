#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "netem/queues/fifo_queue.h"
#include "netem/queues/queued_frame.h"

namespace longhaul {

struct CodelSpec {
  int64_t target_ns = 5'000'000;      // a standing queue this long is accepted
  int64_t interval_ns = 100'000'000;  // for how long it must stand before a frame is dropped
  int64_t max_packet_bytes = 1514;    // no more than this in the queue is no standing queue
  bool ecn = false;                   // frames that are capable are marked instead of dropped
};

// CoDel's control of one queue (RFC 8289, section 5): once every frame of an interval has waited
// longer than the target, one is dropped, the next an interval / sqrt(count) later, until one has
// waited less. A pure state machine: no clock. Thread safety: none.
class Codel {
 public:
  // Takes the frame that may leave at `now_ns` from `queue`; those that it drops on the way go to
  // `dropped`. nullopt: nothing is left.
  std::optional<QueuedFrame> Dequeue(int64_t now_ns, const CodelSpec& spec, FifoQueue& queue,
                                     std::vector<DroppedFrame>& dropped);

  int64_t count() const { return count_; }  // drops and marks since the dropping state began
  bool dropping() const { return dropping_; }

 private:
  struct Candidate {
    std::optional<QueuedFrame> frame;
    bool ok_to_drop = false;
  };
  Candidate Take(int64_t now_ns, const CodelSpec& spec, FifoQueue& queue);
  static int64_t ControlLaw(int64_t from_ns, int64_t interval_ns, int64_t count);

  int64_t first_above_ns_ = 0;  // when an interval above the target is over; 0: not above
  int64_t drop_next_ns_ = 0;
  int64_t count_ = 0;
  int64_t last_count_ = 0;  // count_ when the dropping state began
  bool dropping_ = false;
};

// One FIFO under CoDel.
class CodelQueue {
 public:
  CodelQueue(const CodelSpec& spec, const QueueCapacity& capacity)
      : spec_(spec), queue_(capacity) {}

  void Enqueue(const QueuedFrame& frame, std::vector<DroppedFrame>& dropped) {
    queue_.Enqueue(frame, dropped);
  }
  std::optional<QueuedFrame> Dequeue(int64_t now_ns, std::vector<DroppedFrame>& dropped) {
    return codel_.Dequeue(now_ns, spec_, queue_, dropped);
  }
  std::optional<QueuedFrame> Pop() { return queue_.Pop(); }
  int64_t bytes() const { return queue_.bytes(); }
  bool empty() const { return queue_.empty(); }

 private:
  CodelSpec spec_;
  Codel codel_;
  FifoQueue queue_;
};

}  // namespace longhaul
