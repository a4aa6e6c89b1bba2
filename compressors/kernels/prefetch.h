#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

// Three ways to ask for memory early, because a processor's own prefetching ends with each page.
// All fetch into the second cache: into the first one costs some processors (Zen 4) up to a third
// of the time while codes are made. What is fetched need not be there.
namespace longhaul {

constexpr size_t kCacheLine = 64, kPage = 4096;

// The line `distance` bytes behind x. Loops that write as they read call this for every line.
LONGHAUL_INLINE void PrefetchBehind(const void* x, size_t distance = kPage) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) + distance), 0,
                     2);
}

// Loops that read and hardly write call this for every line: the first eight of the next page are
// enough, and on Zen 4 all 64 cost up to a seventh of the time.
LONGHAUL_INLINE void PrefetchNextPage(const void* x) {
  if (reinterpret_cast<uintptr_t>(x) % kPage < 8 * kCacheLine) PrefetchBehind(x);
}

// All lines of [begin, begin + bytes), where what is worked on at once has several. Batches that
// are read twice fetch what lies kFetchAhead behind where their codes are made: behind what the
// first reading of the next batch has reached, and what comes last has time to arrive.
constexpr size_t kFetchAhead = 12288;
LONGHAUL_INLINE void PrefetchLines(const void* begin, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kCacheLine) PrefetchBehind(begin, i);
}

}  // namespace longhaul
