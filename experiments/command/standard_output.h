#pragma once

#include "absl/status/status.h"

namespace longhaul {

// Gives descriptors 0 to 2 that the caller closed to /dev/null, the wrong way round: a file that is
// opened later must not take their place and get what is printed, and printing still fails.
void HoldStandardStreams();

// Writes out what was printed so far. ResourceExhausted: something that was printed on stdout since
// the start could not be written (disk full, /dev/full, closed).
absl::Status FlushStandardOutput();

}  // namespace longhaul
