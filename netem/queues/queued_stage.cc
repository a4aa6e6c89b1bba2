#include "netem/queues/queued_stage.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

QueuedStage::Discipline QueuedStage::NewDiscipline(const QueuedStageSpec& spec) {
  const QueueManagement& managed = spec.management;
  const CodelSpec codel{.target_ns = absl::ToInt64Nanoseconds(managed.target),
                        .interval_ns = absl::ToInt64Nanoseconds(managed.interval),
                        .max_packet_bytes = spec.frame_bytes,
                        .ecn = managed.ecn};
  switch (managed.kind) {
    case QueueManagement::Kind::kDropTail:
      break;
    case QueueManagement::Kind::kCodel:
      return CodelQueue(codel, spec.capacity);
    case QueueManagement::Kind::kFqCodel:
      return FqCodelQueue({.codel = codel,
                           .quantum_bytes = spec.frame_bytes,
                           .capacity = spec.capacity,
                           .perturbation = spec.seed});
  }
  return FifoQueue(spec.capacity);
}

QueuedStage::QueuedStage(const QueuedStageSpec& spec)
    : spec_(spec), discipline_(NewDiscipline(spec)) {}

std::optional<QueuedFrame> QueuedStage::Dequeue(int64_t now_ns,
                                                std::vector<DroppedFrame>& dropped) {
  return std::visit([&](auto& queue) { return queue.Dequeue(now_ns, dropped); }, discipline_);
}

bool QueuedStage::Waiting() const {
  return in_transit_ || !std::visit([](const auto& queue) { return queue.empty(); }, discipline_);
}

// The time of the first opportunity after `after_ns` that is still there; it is used by that.
int64_t QueuedStage::TakeOpportunity(int64_t after_ns) {
  next_opportunity_ = std::max(
      next_opportunity_, FirstOpportunityAfter(*spec_.trace, after_ns - spec_.trace_start_ns));
  return spec_.trace_start_ns + OpportunityNs(*spec_.trace, next_opportunity_++);
}

std::optional<int64_t> QueuedStage::Arrive(const QueuedFrame& frame,
                                           std::vector<DroppedFrame>& dropped) {
  std::visit([&](auto& queue) { queue.Enqueue(frame, dropped); }, discipline_);
  if (called_ || !Waiting()) return std::nullopt;
  called_ = true;
  if (spec_.trace != nullptr) return TakeOpportunity(frame.arrived_ns);
  return std::max(frame.arrived_ns, static_cast<int64_t>(std::ceil(free_ns_)));
}

std::optional<int64_t> QueuedStage::Serve(int64_t now_ns, std::vector<Departure>& departures,
                                          std::vector<DroppedFrame>& dropped) {
  const auto again_ns = spec_.trace != nullptr ? ServeTrace(now_ns, departures, dropped)
                                               : ServeRate(now_ns, departures, dropped);
  called_ = again_ns.has_value();
  return again_ns;
}

std::optional<int64_t> QueuedStage::ServeRate(int64_t now_ns, std::vector<Departure>& departures,
                                              std::vector<DroppedFrame>& dropped) {
  // A frame that a trace had begun with goes on whole.
  const auto frame = in_transit_ ? in_transit_ : Dequeue(now_ns, dropped);
  in_transit_.reset();
  if (!frame) return std::nullopt;
  // Called when the server is free, but for rounding; or later, after it was idle.
  if (free_ns_ + 1 < static_cast<double>(now_ns)) free_ns_ = static_cast<double>(now_ns);
  if (spec_.rate) free_ns_ += static_cast<double>(frame->wire_bytes) * 8e9 / spec_.rate->value;
  departures.push_back({*frame, std::llround(free_ns_)});
  if (!Waiting()) return std::nullopt;
  return std::max(now_ns, static_cast<int64_t>(std::ceil(free_ns_)));
}

// As mahimahi: an opportunity carries 1500 bytes of packets, the rest of one that was begun first;
// what it has left when the queue is empty is lost.
std::optional<int64_t> QueuedStage::ServeTrace(int64_t now_ns, std::vector<Departure>& departures,
                                               std::vector<DroppedFrame>& dropped) {
  int64_t left_bytes = kOpportunityBytes;
  while (left_bytes > 0) {
    if (!in_transit_) {
      in_transit_ = Dequeue(now_ns, dropped);
      if (!in_transit_) break;
      in_transit_left_bytes_ = in_transit_->packet_bytes;
    }
    const int64_t sent_bytes = std::min(left_bytes, in_transit_left_bytes_);
    left_bytes -= sent_bytes;
    in_transit_left_bytes_ -= sent_bytes;
    if (in_transit_left_bytes_ > 0) break;
    departures.push_back({*in_transit_, now_ns});
    in_transit_.reset();
  }
  free_ns_ = static_cast<double>(now_ns);
  if (!Waiting()) return std::nullopt;
  // The next one, also when it comes at this very moment.
  return TakeOpportunity(now_ns - 1);
}

void QueuedStage::Change(const QueuedStageSpec& spec, std::vector<DroppedFrame>& dropped) {
  Discipline next = NewDiscipline(spec);
  while (const auto frame = std::visit([](auto& queue) { return queue.Pop(); }, discipline_)) {
    std::visit([&](auto& queue) { queue.Enqueue(*frame, dropped); }, next);
  }
  if (spec.trace != spec_.trace) next_opportunity_ = 0;
  discipline_ = std::move(next);
  spec_ = spec;
}

}  // namespace longhaul
