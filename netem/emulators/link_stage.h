#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "netem/topology/queue_capacity.h"
#include "netem/topology/units.h"

namespace longhaul {

// A drop-tail queue before a rate. Synthetic time in ns: no clock, no I/O, no randomness. What
// comes after the rate (a delay) is the owner's: it takes no room here.
struct StageSpec {
  std::optional<BitsPerSecond> rate;  // nullopt: nothing waits
  QueueCapacity queue = {};           // with the frame that is being sent
};

class LinkStage {
 public:
  explicit LinkStage(const StageSpec& spec) : spec_(spec) {}

  // A frame of `wire_bytes`, which stands for `packets` of the MTU at most, arrives at `now_ns`,
  // not before any earlier arrival. Returns when its last bit has left, or nullopt when the queue
  // has no room for it.
  std::optional<int64_t> Admit(int64_t now_ns, int64_t wire_bytes, int64_t packets = 1);

  // For frames that arrive from now on; those inside keep the time they were given.
  void Change(const StageSpec& spec) { spec_ = spec; }
  double free_ns() const { return free_ns_; }
  const StageSpec& spec() const { return spec_; }

 private:
  struct Held {
    int64_t left_ns;
    int64_t wire_bytes;
    int64_t packets;
  };
  StageSpec spec_;
  double free_ns_ = 0;  // when the last frame has left; a double, so that rounding does not add up
  int64_t held_bytes_ = 0, held_packets_ = 0;
  std::deque<Held> held_;  // ascending left_ns
};

}  // namespace longhaul
