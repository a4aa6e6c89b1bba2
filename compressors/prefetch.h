#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/small_floats.h"

namespace longhaul {

// Fetches what lies a page behind x: loops that read memory do so for every line, because the
// processor's own prefetching ends with each page.
LONGHAUL_INLINE void PrefetchBehind(const void* x) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + 4096));
}

// The same a chunk of 4096 floats behind: for the last and longest of several readings of a chunk,
// so that the first reading of the next one finds it in a cache.
LONGHAUL_INLINE void PrefetchNextChunk(const void* x) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + 4 * 4096));
}

// Fetches the lines of some memory, which need not be there.
LONGHAUL_INLINE void PrefetchLines(const void* begin, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(at + i));
}

}  // namespace longhaul
