#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "netem/topology/units.h"

namespace longhaul {

// One place where frames wait: a drop-tail queue, a rate and a delay, in that order. Synthetic time
// in ns: no clock, no I/O, no randomness.
struct StageSpec {
  std::optional<BitsPerSecond> rate;  // nullopt: delay only
  int64_t delay_ns = 0;
  int64_t limit_bytes = 0;  // delay line and queue together, as netem's limit counts them
};

class LinkStage {
 public:
  explicit LinkStage(const StageSpec& spec) : spec_(spec) {}

  // A frame of `wire_bytes` arrives at `now_ns`, not before any earlier arrival. Returns when it
  // leaves, or nullopt when the queue is full. `jitter_ns` is added to this frame's delay (the sum
  // counts as at least 0); with a rate frames never overtake each other, without one they may.
  std::optional<int64_t> Admit(int64_t now_ns, int64_t wire_bytes, int64_t jitter_ns = 0);

  // Bytes in the delay line and the queue at `now_ns`.
  int64_t HeldBytes(int64_t now_ns);

  // For frames that arrive from now on; those inside keep the time they were given.
  void Change(const StageSpec& spec) { spec_ = spec; }
  double free_ns() const { return free_ns_; }
  const StageSpec& spec() const { return spec_; }

 private:
  struct Held {
    int64_t due_ns;
    int64_t wire_bytes;
  };
  StageSpec spec_;
  double free_ns_ = 0;  // when the last frame leaves; a double, so that rounding does not add up
  int64_t held_bytes_ = 0;
  std::deque<Held> held_;  // ascending due_ns
};

}  // namespace longhaul
