#pragma once

#include <cstddef>

#include "compressors/kernels/kernels.h"

// Writing past the caches. A line that is stored in the ordinary way is read from memory first; for
// an output that no cache would keep anyway that is a third to a half of the traffic.
namespace longhaul {

// Outputs from here on go past the caches: they would drive out everything else.
constexpr size_t kStreamedBytes = size_t{16} << 20;

// Orders what was streamed before what this thread does next; once per thread and output.
inline void FinishStreaming() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace longhaul
