#pragma once

#include <immintrin.h>

#include <cstddef>

#include "compressors/kernels/avx512/packing.h"
#include "compressors/kernels/byte_order.h"

namespace longhaul::avx512 {

// 256 values by code, for lanes.h: byte p of all of them in four registers each, p = 0..3, from
// which the codes of 64 elements fetch their bytes at once (VBMI).
class ByteEntries {
 public:
  static constexpr size_t kAtOnce = 64;

  LONGHAUL_INLINE explicit ByteEntries(const float* table) {
    const __m512i by_byte = _mm512_broadcast_i32x4(FourByFour());
    for (int q = 0; q < 4; ++q) {
      __m512i v[4];  // dword p of each lane: byte p of its four floats
      for (int i = 0; i < 4; ++i) {
        v[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(table + 64 * q + 16 * i), by_byte);
      }
      __m512i bytes[4];
      SwapWordsAndVectors(v, bytes);
      for (int p = 0; p < 4; ++p) planes_[p][q] = TurnedWords(bytes[p]);
    }
  }

  // x[j] = table[codes[j]], j < 64.
  LONGHAUL_INLINE void LookUp(const std::byte* codes, float* x) const {
    // Dword k of lane L becomes vector k's lane L.
    const __m512i code = TurnedWords(_mm512_loadu_si512(codes));
    const __mmask64 upper = _mm512_movepi8_mask(code);
    __m512i byte[4];
    for (int p = 0; p < 4; ++p) {
      const __m512i low = _mm512_permutex2var_epi8(planes_[p][0], code, planes_[p][1]);
      const __m512i high = _mm512_permutex2var_epi8(planes_[p][2], code, planes_[p][3]);
      byte[p] = _mm512_mask_blend_epi8(upper, low, high);
    }
    const __m512i low[2] = {_mm512_unpacklo_epi8(byte[0], byte[1]),
                            _mm512_unpackhi_epi8(byte[0], byte[1])};
    const __m512i high[2] = {_mm512_unpacklo_epi8(byte[2], byte[3]),
                             _mm512_unpackhi_epi8(byte[2], byte[3])};
    for (int h = 0; h < 2; ++h) {
      _mm512_storeu_si512(x + 32 * h, _mm512_unpacklo_epi16(low[h], high[h]));
      _mm512_storeu_si512(x + 32 * h + 16, _mm512_unpackhi_epi16(low[h], high[h]));
    }
  }

 private:
  // turned[p]: dword i of each lane is dword p of v[i]'s.
  LONGHAUL_INLINE static void SwapWordsAndVectors(const __m512i* v, __m512i* turned) {
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpacklo_epi32(v[2], v[3]);
    const __m512i c = _mm512_unpackhi_epi32(v[0], v[1]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    turned[0] = _mm512_unpacklo_epi64(a, b);
    turned[1] = _mm512_unpackhi_epi64(a, b);
    turned[2] = _mm512_unpacklo_epi64(c, d);
    turned[3] = _mm512_unpackhi_epi64(c, d);
  }

  __m512i planes_[4][4];  // [byte][quarter of the table]
};

}  // namespace longhaul::avx512
