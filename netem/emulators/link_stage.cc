#include "netem/emulators/link_stage.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

int64_t LinkStage::HeldBytes(int64_t now_ns) {
  while (!held_.empty() && held_.front().due_ns <= now_ns) {
    held_bytes_ -= held_.front().wire_bytes;
    held_.pop_front();
  }
  return held_bytes_;
}

std::optional<int64_t> LinkStage::Admit(int64_t now_ns, int64_t wire_bytes, int64_t jitter_ns) {
  if (HeldBytes(now_ns) + wire_bytes > spec_.limit_bytes) return std::nullopt;
  const int64_t ready_ns = now_ns + std::max<int64_t>(0, spec_.delay_ns + jitter_ns);
  int64_t due_ns = ready_ns;
  if (spec_.rate) {
    // The same as serving first and delaying then, and as netem does it: a frame leaves one
    // transmission time after its delay has passed or the frame before it has left.
    const double transmit_ns = static_cast<double>(wire_bytes) * 8e9 / spec_.rate->value;
    free_ns_ = std::max(free_ns_, static_cast<double>(ready_ns)) + transmit_ns;
    due_ns = std::llround(free_ns_);
  }
  held_bytes_ += wire_bytes;
  auto place = held_.end();
  while (place != held_.begin() && std::prev(place)->due_ns > due_ns) --place;
  held_.insert(place, Held{due_ns, wire_bytes});
  return due_ns;
}

}  // namespace longhaul
