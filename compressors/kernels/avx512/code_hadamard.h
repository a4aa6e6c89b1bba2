#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

// Hadamard transforms of codes of four bits, for lanes.h.
namespace longhaul::avx512 {

// Byte 4l + j of row i: the sign with which element 4i + j counts in sum l of sixteen.
struct HadamardSigns {
  int8_t row[4][64];
};
constexpr HadamardSigns MakeHadamardSigns() {
  HadamardSigns signs = {};
  for (int i = 0; i < 4; ++i) {
    for (int at = 0; at < 64; ++at) {
      const int both = at / 4 & (4 * i + at % 4);
      signs.row[i][at] = __builtin_popcount(static_cast<unsigned>(both)) % 2 == 0 ? 1 : -1;
    }
  }
  return signs;
}

// steps[code] + 16 of 32 codes, as bytes in order.
LONGHAUL_INLINE void StorePositiveSteps(const std::byte* codes, const int8_t* steps,
                                        std::byte* out) {
  const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  const __m128i lookup =
      _mm_add_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(steps)), _mm_set1_epi8(16));
  const __m128i low = _mm_set1_epi8(15);
  const __m128i even = _mm_shuffle_epi8(lookup, _mm_and_si128(packed, low));
  const __m128i odd = _mm_shuffle_epi8(lookup, _mm_and_si128(_mm_srli_epi16(packed, 4), low));
  auto* to = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(to, _mm_unpacklo_epi8(even, odd));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi8(even, odd));
}

// H q of each half of 32 codes, q = steps[code], |q| <= 15: by dot products with signs, of four
// codes for all sixteen sums at once.
LONGHAUL_INLINE void HadamardOf16s(const std::byte* codes, const int8_t* steps, __m512i* sums) {
  static constexpr HadamardSigns kSigns = MakeHadamardSigns();
  alignas(32) int32_t fours[8];
  StorePositiveSteps(codes, steps, reinterpret_cast<std::byte*>(fours));
  // Through memory: a load spreads a word over all lanes for nothing, in registers two shuffles do.
  asm("" : "+m"(fours));
  // What makes the steps positive is in the first sum only; the signs of the others add up to 0.
  const __m512i start = _mm512_maskz_set1_epi32(1, -16 * 16);
  for (int half = 0; half < 2; ++half) {
    sums[half] = start;
    for (int i = 0; i < 4; ++i) {
      sums[half] = _mm512_dpbusd_epi32(sums[half], _mm512_set1_epi32(fours[4 * half + i]),
                                       _mm512_loadu_si512(kSigns.row[i]));
    }
  }
}

}  // namespace longhaul::avx512
