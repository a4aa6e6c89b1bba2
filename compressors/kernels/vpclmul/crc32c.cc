// CRC32C by carry-less multiplication of four 128-bit lanes at once. Bits that stand `distance` in
// front of others may be replaced by their product with x^distance mod P, added to those: a line
// of 64 bytes is folded onto the fourth after it, and the last ones are summed by the SSE4.2
// instruction.
// Source: Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel, 2009.
#include <immintrin.h>

#include <cstring>

#include "compressors/kernels/prefetch.h"
#include "compressors/numbers/crc32c.h"
#include "compressors/numbers/crc32c_polynomial.h"

namespace longhaul {
namespace {

constexpr size_t kVectors = 4, kLine = 64, kStep = kVectors * kLine;

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
  LONGHAUL_INLINE explicit LineFolder(const FoldedCrc& folded) : by_(MoveBy<8 * kStep>()) {
    for (size_t v = 0; v < kVectors; ++v) lines_[v] = _mm512_loadu_si512(folded.lines[v]);
  }
  // The next kStep bytes.
  LONGHAUL_INLINE void Step(const std::byte* p) {
    for (size_t v = 0; v < kVectors; ++v) {
      PrefetchBehind(p + v * kLine);
      lines_[v] = Fold(lines_[v], by_, _mm512_loadu_si512(p + v * kLine));
    }
  }
  LONGHAUL_INLINE void Store(size_t steps, FoldedCrc& folded) const {
    for (size_t v = 0; v < kVectors; ++v) _mm512_storeu_si512(folded.lines[v], lines_[v]);
    folded.line_count += steps * kVectors;
  }

 private:
  const __m512i by_;
  __m512i lines_[kVectors];
};

void FoldLine(const std::byte* p, FoldedCrc& folded) {
  std::byte* const onto = folded.lines[folded.line_count % kVectors];
  __m512i line = _mm512_loadu_si512(p);
  if (folded.line_count == 0) {
    const __m128i initial = _mm_cvtsi32_si128(static_cast<int>(~folded.initial));
    line = _mm512_xor_si512(line, _mm512_zextsi128_si512(initial));
  }
  _mm512_store_si512(onto, Fold(_mm512_load_si512(onto), MoveBy<8 * kStep>(), line));
  ++folded.line_count;
}

}  // namespace

void Crc32cFold(const std::byte* p, size_t left, FoldedCrc& folded) {
  if (left == 0) return;
  if (folded.rest_bytes > 0) {
    const size_t room = kLine - folded.rest_bytes, taken = left < room ? left : room;
    std::memcpy(folded.rest + folded.rest_bytes, p, taken);
    folded.rest_bytes += taken;
    p += taken;
    left -= taken;
    if (folded.rest_bytes < kLine) return;
    FoldLine(folded.rest, folded);
    folded.rest_bytes = 0;
  }
  for (; left >= kLine && (folded.line_count == 0 || folded.line_count % kVectors != 0);
       left -= kLine, p += kLine) {
    FoldLine(p, folded);
  }
  if (left >= kStep) {
    const size_t steps = left / kStep;
    LineFolder folder(folded);
    for (size_t i = 0; i < steps; ++i) folder.Step(p + i * kStep);
    folder.Store(steps, folded);
    p += steps * kStep;
    left -= steps * kStep;
  }
  for (; left >= kLine; left -= kLine, p += kLine) FoldLine(p, folded);
  std::memcpy(folded.rest, p, left);
  folded.rest_bytes = left;
}

uint32_t Crc32cOfFolded(const FoldedCrc& folded) {
  if (folded.line_count == 0) return Crc32cSse42(folded.rest, folded.rest_bytes, folded.initial);
  __m512i x = _mm512_setzero_si512();  // the oldest of the four first
  for (size_t v = 0; v < kVectors; ++v) {
    x = Fold(x, MoveBy<8 * kLine>(),
             _mm512_load_si512(folded.lines[(folded.line_count + v) % kVectors]));
  }
  alignas(kLine) uint64_t words[kLine / 8];
  _mm512_store_si512(words, x);
  uint64_t c = 0;
  for (uint64_t word : words) c = _mm_crc32_u64(c, word);
  return Crc32cSse42(folded.rest, folded.rest_bytes, ~static_cast<uint32_t>(c));
}

uint32_t Crc32cVpclmul(const std::byte* bytes, size_t n, uint32_t crc) {
  if (n < 2 * kStep) return Crc32cSse42(bytes, n, crc);
  FoldedCrc folded = {.initial = crc};
  Crc32cFold(bytes, n, folded);
  return Crc32cOfFolded(folded);
}

bool Crc32cVpclmulSupported() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
         Crc32cSse42Supported();
}

}  // namespace longhaul
