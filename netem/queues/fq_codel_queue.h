#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "netem/queues/codel.h"
#include "netem/queues/fifo_queue.h"
#include "netem/queues/queued_frame.h"

namespace longhaul {

struct FqCodelSpec {
  CodelSpec codel = {};
  int64_t quantum_bytes = 1514;  // what a flow may send in a turn
  QueueCapacity capacity = {};   // of all flows together
  int num_flows = 1024;          // queues that flows are hashed to
  uint64_t perturbation = 0;     // of the hash
};

// FlowQueue-CoDel (RFC 8290): a queue under CoDel for each flow, served in deficit round robin; a
// flow that was idle is served before those with a backlog. When all together hold too much, frames
// go from the head of the longest queue. A pure state machine: no clock. Thread safety: none.
class FqCodelQueue {
 public:
  explicit FqCodelQueue(const FqCodelSpec& spec);

  void Enqueue(const QueuedFrame& frame, std::vector<DroppedFrame>& dropped);
  std::optional<QueuedFrame> Dequeue(int64_t now_ns, std::vector<DroppedFrame>& dropped);
  std::optional<QueuedFrame> Pop();  // any one, past all rules
  int64_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }

 private:
  enum class Listed { kNo, kNew, kOld };
  struct Flow {
    FifoQueue queue;
    Codel codel;
    int64_t credit_bytes = 0;
    Listed listed = Listed::kNo;
  };
  void DropFromLongest(std::vector<DroppedFrame>& dropped);
  bool TooMuch() const { return !spec_.capacity.Holds(packets_, bytes_); }

  Flow& FlowOf(int place) { return flows_[static_cast<size_t>(place)]; }

  FqCodelSpec spec_;
  std::vector<int> place_of_hash_;  // in flows_; -1: no frame came yet
  std::vector<Flow> flows_;
  std::deque<int> new_flows_, old_flows_;  // places in flows_; each in one list at most
  int64_t bytes_ = 0, packets_ = 0;
};

}  // namespace longhaul
