#pragma once

#include <cstdint>

#include "compressors/small_floats.h"

namespace longhaul {

// Fetches what lies a page behind x: loops that read memory do so for every line, because the
// processor's own prefetching ends with each page.
LONGHAUL_INLINE void PrefetchBehind(const void* x) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + 4096));
}

}  // namespace longhaul
