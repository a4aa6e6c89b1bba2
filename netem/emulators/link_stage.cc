#include "netem/emulators/link_stage.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

std::optional<int64_t> LinkStage::Admit(int64_t now_ns, int64_t wire_bytes, int64_t packets) {
  if (!spec_.rate) return now_ns;
  for (; !held_.empty() && held_.front().left_ns <= now_ns; held_.pop_front()) {
    held_bytes_ -= held_.front().wire_bytes;
    held_packets_ -= held_.front().packets;
  }
  if (!spec_.queue.Holds(held_packets_ + packets, held_bytes_ + wire_bytes)) return std::nullopt;
  const double transmit_ns = static_cast<double>(wire_bytes) * 8e9 / spec_.rate->value;
  free_ns_ = std::max(free_ns_, static_cast<double>(now_ns)) + transmit_ns;
  held_bytes_ += wire_bytes;
  held_packets_ += packets;
  held_.push_back({std::llround(free_ns_), wire_bytes, packets});
  return held_.back().left_ns;
}

}  // namespace longhaul
