#include "netem/queues/fq_codel_queue.h"

#include <algorithm>

namespace longhaul {
namespace {

constexpr int kMostDroppedAtOnce = 64;  // so that the search for the longest queue pays

// The last step of MurmurHash3: every bit of the flow and the perturbation counts.
uint64_t Spread(uint64_t z) {
  z = (z ^ (z >> 33)) * 0xff51afd7ed558ccd;
  z = (z ^ (z >> 33)) * 0xc4ceb9fe1a85ec53;
  return z ^ (z >> 33);
}

}  // namespace

FqCodelQueue::FqCodelQueue(const FqCodelSpec& spec)
    : spec_(spec), place_of_hash_(static_cast<size_t>(spec.num_flows), -1) {}

void FqCodelQueue::Enqueue(const QueuedFrame& frame, std::vector<DroppedFrame>& dropped) {
  int& place = place_of_hash_[Spread(frame.flow ^ spec_.perturbation) % place_of_hash_.size()];
  if (place < 0) {
    place = static_cast<int>(flows_.size());
    flows_.push_back({FifoQueue(), {}});
  }
  Flow& flow = FlowOf(place);
  flow.queue.Enqueue(frame, dropped);
  bytes_ += frame.wire_bytes;
  packets_ += frame.packets;
  if (flow.listed == Listed::kNo) {
    flow.listed = Listed::kNew;
    flow.credit_bytes = spec_.quantum_bytes;
    new_flows_.push_back(place);
  }
  if (TooMuch()) DropFromLongest(dropped);
}

// Half of the longest queue, and no more than it takes to be a batch (RFC 8290, section 4.1.3).
void FqCodelQueue::DropFromLongest(std::vector<DroppedFrame>& dropped) {
  const auto longest = std::max_element(
      flows_.begin(), flows_.end(),
      [](const Flow& a, const Flow& b) { return a.queue.bytes() < b.queue.bytes(); });
  const int64_t half = longest->queue.bytes() / 2;
  int64_t gone_bytes = 0;
  for (int i = 0; i < kMostDroppedAtOnce && (gone_bytes < half || TooMuch()); ++i) {
    const auto frame = longest->queue.Pop();
    if (!frame) break;
    gone_bytes += frame->wire_bytes;
    bytes_ -= frame->wire_bytes;
    packets_ -= frame->packets;
    dropped.push_back({*frame, DropReason::kFull});
  }
}

std::optional<QueuedFrame> FqCodelQueue::Dequeue(int64_t now_ns,
                                                 std::vector<DroppedFrame>& dropped) {
  for (;;) {
    std::deque<int>& list = new_flows_.empty() ? old_flows_ : new_flows_;
    if (list.empty()) return std::nullopt;
    const int place = list.front();
    Flow& flow = FlowOf(place);
    const auto to_the_end_of_old = [&] {
      list.pop_front();
      flow.listed = Listed::kOld;
      old_flows_.push_back(place);
    };
    if (flow.credit_bytes <= 0) {
      flow.credit_bytes += spec_.quantum_bytes;
      to_the_end_of_old();
      continue;
    }
    const int64_t before_bytes = flow.queue.bytes(), before_packets = flow.queue.packets();
    const auto frame = flow.codel.Dequeue(now_ns, spec_.codel, flow.queue, dropped);
    bytes_ -= before_bytes - flow.queue.bytes();
    packets_ -= before_packets - flow.queue.packets();
    if (frame) {
      flow.credit_bytes -= frame->wire_bytes;
      return frame;
    }
    // An empty new flow waits a turn among the old ones, or it could be new for ever.
    if (flow.listed == Listed::kNew) {
      to_the_end_of_old();
    } else {
      flow.listed = Listed::kNo;
      list.pop_front();
    }
  }
}

std::optional<QueuedFrame> FqCodelQueue::Pop() {
  for (Flow& flow : flows_) {
    if (auto frame = flow.queue.Pop()) {
      bytes_ -= frame->wire_bytes;
      packets_ -= frame->packets;
      return frame;
    }
  }
  return std::nullopt;
}

}  // namespace longhaul
