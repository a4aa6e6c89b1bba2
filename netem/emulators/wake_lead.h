#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul {

// A thread that sleeps wakes up late, on a given machine by much the same most of the time, and
// every link would be longer by that. So the emulator sets its timer so much before a frame's time,
// and takes a frame that woke it for so much older. What is left out is the tail: the lead follows
// the lower lateness of the last few dozen timers.
class WakeLead {
 public:
  // No frame leaves earlier than that, or counts as older: a crossing lasts at most twice as much
  // less than it should.
  static constexpr int64_t kMostNs = 100'000;

  int64_t ns() const { return ns_; }

  // A timer woke the thread `late_ns` after the time it was set for.
  void Woke(int64_t late_ns) {
    ns_ += std::clamp<int64_t>((late_ns - ns_) / 4, -8'000, 2'000);
    ns_ = std::clamp<int64_t>(ns_, 0, kMostNs);
  }

 private:
  int64_t ns_ = 0;
};

}  // namespace longhaul
