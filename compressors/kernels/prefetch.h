#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/processor.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {

// Fetches the line at an address, which need not be there.
template <bool kToFirst>
LONGHAUL_INLINE void PrefetchInto(uintptr_t at) {
  __builtin_prefetch(reinterpret_cast<const void*>(at), 0, kToFirst ? 3 : 2);
}
LONGHAUL_INLINE void PrefetchAt(uintptr_t at) {
  if (fetch_to_first_cache) {
    PrefetchInto<true>(at);
  } else {
    PrefetchInto<false>(at);
  }
}

// Fetches what lies a page behind x. Loops that write as they read do so for every line, because
// the processor's own prefetching ends with each page.
LONGHAUL_INLINE void PrefetchBehind(const void* x) {
  PrefetchAt(reinterpret_cast<uintptr_t>(x) + 4096);
}
// Loops that read and hardly write call this for every line: the first eight of the next page are
// enough, and on Zen 4 all 64 cost up to a seventh of the time.
LONGHAUL_INLINE void PrefetchNextPage(const void* x) {
  const auto at = reinterpret_cast<uintptr_t>(x);
  if (at % 4096 < 8 * 64) PrefetchAt(at + 4096);
}

// Fetches line after line, for loops in which even asking into which cache shows.
template <bool kToFirst>
class LinesAhead {
 public:
  // What lies `ahead` floats behind x.
  LONGHAUL_INLINE LinesAhead(const float* x, size_t ahead)
      : at_(reinterpret_cast<uintptr_t>(x) + 4 * ahead) {}
  LONGHAUL_INLINE void Fetch() {
    PrefetchInto<kToFirst>(at_);
    at_ += 64;
  }

 private:
  uintptr_t at_;
};

// What lies a chunk of 4096 floats behind x: for the last and longest of several readings of a
// chunk, so that the first reading of the next one finds it in a cache.
LONGHAUL_INLINE void PrefetchNextChunk(const void* x) {
  PrefetchAt(reinterpret_cast<uintptr_t>(x) + 4 * 4096);
}

// What lies a chunk and a half behind x, for loops over a chunk of 4096 floats between which only
// little is computed: memory then works through that time too. Nearer, it stops with every chunk;
// on a Xeon with 2 MiB of second cache TopK gained a fifth over PrefetchNextPage.
LONGHAUL_INLINE void PrefetchFar(const void* x) {
  PrefetchAt(reinterpret_cast<uintptr_t>(x) + 6 * 4096);
}

// How far before its codes are made an element is fetched, where batches of elements are read
// twice: behind what the first reading of the next batch has reached, and what comes last has time
// to arrive. On Zen 5 4 to 13 % faster than 8 KiB and 3 to 13 % faster than 16 KiB.
constexpr size_t kFetchAhead = 12288;

// Fetches the lines of some memory, which need not be there.
LONGHAUL_INLINE void PrefetchLines(const void* begin, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (size_t i = 0; i < bytes; i += 64) PrefetchAt(at + i);
}

}  // namespace longhaul
