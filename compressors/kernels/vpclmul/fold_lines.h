#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/prefetch.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/numbers/crc32c_polynomial.h"

// Four lines of 64 bytes at a time onto the four before, for a checksum (crc32c.h).
namespace longhaul {

constexpr size_t kFoldVectors = 4, kFoldLine = 64, kFoldStep = kFoldVectors * kFoldLine;

// What the lower and upper half of every lane are multiplied with to move by so many bits. Of a
// product of 64 and 32 reflected bits, x^0 stands one place from the end: hence 31 and 33, not 32.
template <size_t kBits>
LONGHAUL_INLINE __m512i MoveBy() {
  constexpr uint32_t kLow = PowerOfX(kBits + 31), kHigh = PowerOfX(kBits - 33);
  return _mm512_broadcast_i32x4(_mm_set_epi64x(kHigh, kLow));
}

LONGHAUL_INLINE __m512i Fold(__m512i x, __m512i by, __m512i onto) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
                                   _mm512_clmulepi64_epi128(x, by, 0x11), onto, 0x96);
}

// The four lines in registers, from construction to Store. They are there, and in their order:
// folded.line_count is a multiple of four above 0.
class LineFolder {
 public:
  static constexpr size_t kBytes = kFoldStep;
  LONGHAUL_INLINE explicit LineFolder(const FoldedCrc& folded) : by_(MoveBy<8 * kFoldStep>()) {
    for (size_t v = 0; v < kFoldVectors; ++v) lines_[v] = _mm512_loadu_si512(folded.lines[v]);
  }
  // The next kFoldStep bytes.
  LONGHAUL_INLINE void Step(const std::byte* p) {
    for (size_t v = 0; v < kFoldVectors; ++v) {
      PrefetchBehind(p + v * kFoldLine);
      lines_[v] = Fold(lines_[v], by_, _mm512_loadu_si512(p + v * kFoldLine));
    }
  }
  LONGHAUL_INLINE void Store(size_t steps, FoldedCrc& folded) const {
    for (size_t v = 0; v < kFoldVectors; ++v) _mm512_storeu_si512(folded.lines[v], lines_[v]);
    folded.line_count += steps * kFoldVectors;
  }

 private:
  const __m512i by_;
  __m512i lines_[kFoldVectors];
};

}  // namespace longhaul
