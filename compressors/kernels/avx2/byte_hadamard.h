#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

namespace longhaul::avx2 {

// The first three butterfly stages of 32 codes of four bits, for lanes.h: in bytes, with
// q = steps[code] and |q| <= 15.
LONGHAUL_INLINE __m256i ByteHadamardOf32(const std::byte* codes, const int8_t* steps) {
  const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  const __m128i lookup = _mm_loadu_si128(reinterpret_cast<const __m128i*>(steps));
  const __m128i low = _mm_set1_epi8(15);
  const __m128i even = _mm_shuffle_epi8(lookup, _mm_and_si128(packed, low));
  const __m128i odd = _mm_shuffle_epi8(lookup, _mm_and_si128(_mm_srli_epi16(packed, 4), low));
  const __m128i sum = _mm_add_epi8(even, odd), difference = _mm_sub_epi8(even, odd);
  __m256i q =
      _mm256_set_m128i(_mm_unpackhi_epi8(sum, difference), _mm_unpacklo_epi8(sum, difference));
  const __m256i by_two = _mm256_set1_epi32(static_cast<int>(0xFFFF0101));
  const __m256i by_four = _mm256_set1_epi64x(static_cast<long long>(0xFFFFFFFF01010101));
  const __m256i pairs_swapped = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(q, 0xB1), 0xB1);
  q = _mm256_add_epi8(pairs_swapped, _mm256_sign_epi8(q, by_two));
  return _mm256_add_epi8(_mm256_shuffle_epi32(q, 0xB1), _mm256_sign_epi8(q, by_four));
}

}  // namespace longhaul::avx2
