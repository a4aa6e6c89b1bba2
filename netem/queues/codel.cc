#include "netem/queues/codel.h"

#include <cmath>

namespace longhaul {
namespace {

// A dropping state that begins within so many intervals of the last goes on at its rate.
constexpr int64_t kRecentIntervals = 16;

// True where the frame takes the mark and so need not be dropped.
bool Mark(const CodelSpec& spec, QueuedFrame& frame) {
  frame.marked = spec.ecn && frame.ecn_capable;
  return frame.marked;
}

}  // namespace

int64_t Codel::ControlLaw(int64_t from_ns, int64_t interval_ns, int64_t count) {
  return from_ns +
         std::llround(static_cast<double>(interval_ns) / std::sqrt(static_cast<double>(count)));
}

Codel::Candidate Codel::Take(int64_t now_ns, const CodelSpec& spec, FifoQueue& queue) {
  Candidate taken{queue.Pop()};
  if (!taken.frame) {
    first_above_ns_ = 0;
    return taken;
  }
  const bool short_wait = now_ns - taken.frame->arrived_ns < spec.target_ns;
  if (short_wait || queue.bytes() <= spec.max_packet_bytes) {
    first_above_ns_ = 0;
  } else if (first_above_ns_ == 0) {
    first_above_ns_ = now_ns + spec.interval_ns;
  } else {
    taken.ok_to_drop = now_ns >= first_above_ns_;
  }
  return taken;
}

std::optional<QueuedFrame> Codel::Dequeue(int64_t now_ns, const CodelSpec& spec, FifoQueue& queue,
                                          std::vector<DroppedFrame>& dropped) {
  Candidate taken = Take(now_ns, spec, queue);
  if (dropping_) {
    if (!taken.ok_to_drop) dropping_ = false;
    while (dropping_ && now_ns >= drop_next_ns_) {
      ++count_;
      if (Mark(spec, *taken.frame)) {
        drop_next_ns_ = ControlLaw(drop_next_ns_, spec.interval_ns, count_);
        break;
      }
      dropped.push_back({*taken.frame, DropReason::kManaged});
      taken = Take(now_ns, spec, queue);
      dropping_ = taken.ok_to_drop;
      if (dropping_) drop_next_ns_ = ControlLaw(drop_next_ns_, spec.interval_ns, count_);
    }
    return taken.frame;
  }
  if (!taken.ok_to_drop) return taken.frame;
  if (!Mark(spec, *taken.frame)) {
    dropped.push_back({*taken.frame, DropReason::kManaged});
    taken = Take(now_ns, spec, queue);
  }
  dropping_ = true;
  const int64_t more = count_ - last_count_;
  const bool recent = now_ns - drop_next_ns_ < kRecentIntervals * spec.interval_ns;
  count_ = more > 1 && recent ? more : 1;
  drop_next_ns_ = ControlLaw(now_ns, spec.interval_ns, count_);
  last_count_ = count_;
  return taken.frame;
}

}  // namespace longhaul
