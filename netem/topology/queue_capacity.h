#pragma once

#include <cstdint>

namespace longhaul {

// How much may wait before a rate, what is being sent counted in: a queue is full as soon as either
// is reached.
struct QueueCapacity {
  static constexpr int64_t kAny = int64_t{1} << 60;
  int64_t packets = kAny;
  int64_t bytes = kAny;  // Ethernet header included

  bool Holds(int64_t held_packets, int64_t held_bytes) const {
    return held_packets <= packets && held_bytes <= bytes;
  }
};

}  // namespace longhaul
