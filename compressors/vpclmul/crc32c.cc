// CRC32C by carry-less multiplication of four 128-bit lanes at once. Bits that stand `distance` in
// front of others may be replaced by their product with x^distance mod P, added to those: 256 bytes
// are folded onto the next 256, and the last of them are summed by the SSE4.2 instruction.
// Source: Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel, 2009.
#include <immintrin.h>

#include "compressors/crc32c.h"
#include "compressors/crc32c_polynomial.h"
#include "compressors/prefetch.h"

namespace longhaul {
namespace {

constexpr size_t kVectors = 4, kLine = 64, kStep = kVectors * kLine;

// What the lower and upper half of every lane are multiplied with to move by so many bits. Of a
// product of 64 and 32 reflected bits, x^0 stands one place from the end: hence 31 and 33, not 32.
template <size_t kBits>
__m512i MoveBy() {
  constexpr uint32_t kLow = PowerOfX(kBits + 31), kHigh = PowerOfX(kBits - 33);
  return _mm512_broadcast_i32x4(_mm_set_epi64x(kHigh, kLow));
}

__m512i Fold(__m512i x, __m512i by, __m512i onto) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
                                   _mm512_clmulepi64_epi128(x, by, 0x11), onto, 0x96);
}

}  // namespace

uint32_t Crc32cVpclmul(std::span<const std::byte> bytes, uint32_t crc) {
  if (bytes.size() < 2 * kStep) return Crc32cSse42(bytes, crc);
  const std::byte* p = bytes.data();
  size_t left = bytes.size() - kStep;
  __m512i x[kVectors];
  for (size_t v = 0; v < kVectors; ++v) x[v] = _mm512_loadu_si512(p + v * kLine);
  x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  p += kStep;
  const __m512i step = MoveBy<8 * kStep>(), line = MoveBy<8 * kLine>();
  for (; left >= kStep; left -= kStep, p += kStep) {
    for (size_t v = 0; v < kVectors; ++v) {
      PrefetchBehind(p + v * kLine);
      x[v] = Fold(x[v], step, _mm512_loadu_si512(p + v * kLine));
    }
  }
  for (size_t v = 1; v < kVectors; ++v) x[v] = Fold(x[v - 1], line, x[v]);
  alignas(64) uint64_t words[kLine / 8];
  _mm512_store_si512(words, x[kVectors - 1]);
  uint64_t c = 0;
  for (uint64_t word : words) c = _mm_crc32_u64(c, word);
  return Crc32cSse42({p, left}, ~static_cast<uint32_t>(c));
}

bool Crc32cVpclmulSupported() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
         Crc32cSse42Supported();
}

}  // namespace longhaul
