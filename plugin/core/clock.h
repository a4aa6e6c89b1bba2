#pragma once

#include "absl/time/time.h"

namespace longhaul {

// The one clock of a process. Durations, deadlines and timers read it and nothing else, so a test
// (or virtual time) can replace it. Monotonic; its zero means nothing. Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Duration Now() const = 0;
};

// CLOCK_MONOTONIC. Never destroyed.
const Clock& MonotonicClock();

}  // namespace longhaul
