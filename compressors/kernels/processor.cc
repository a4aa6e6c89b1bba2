#include "compressors/kernels/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstring>
#endif

namespace longhaul {
namespace {

// AMD's family 1Ah, of a first cache of 48 KiB.
bool IsZen5() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return false;
  char vendor[12];
  std::memcpy(vendor, &b, 4);
  std::memcpy(vendor + 4, &d, 4);
  std::memcpy(vendor + 8, &c, 4);
  if (std::memcmp(vendor, "AuthenticAMD", 12) != 0) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  return (a >> 8 & 0xF) + (a >> 20 & 0xFF) == 0x1A;
#else
  return false;
#endif
}

}  // namespace

// Into the first cache Zen 5 encodes 5 to 20 % faster. Zen 4 needs a fifth to a third longer that
// way while codes are made, presumably because a line then holds, for as long as memory takes to
// answer, one of the few places that the loads of the present need too. What has not been measured
// gets the second cache.
bool fetch_to_first_cache = IsZen5();

// Zen 5 adds a chunk of 4096 to its bins 10 % faster when nothing else is stored meanwhile; a Xeon
// 8 % slower. Zen 4 was measured only with lanes at work beside the additions.
bool add_apart = IsZen5();

}  // namespace longhaul
