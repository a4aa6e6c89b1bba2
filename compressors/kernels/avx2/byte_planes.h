#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/avx2/packing.h"
#include "compressors/kernels/byte_order.h"

namespace longhaul::avx2 {

// The bytes of 32 integers in planes, and what stat_bins.h does with those, for lanes.h.
struct BytePlanes : Packing {
  // The lowest two bytes of 32 integers, in the order of PlaceInVectors.
  struct Planes {
    U units, bins;
  };
  LONGHAUL_INLINE static constexpr size_t PlaceOfByte(size_t j) { return PlaceInVectors<8>(j); }
  LONGHAUL_INLINE static Planes SplitBytes(const U* x) {
    const U a = _mm256_blend_epi16(x[0], _mm256_slli_epi32(x[1], 16), 0xAA);
    const U b = _mm256_blend_epi16(x[2], _mm256_slli_epi32(x[3], 16), 0xAA);
    const U even = _mm256_set1_epi16(0xFF);
    return {_mm256_or_si256(_mm256_and_si256(even, a), _mm256_slli_epi16(b, 8)),
            _mm256_or_si256(_mm256_srli_epi16(a, 8), _mm256_andnot_si256(even, b))};
  }
  // A plane's bytes, each below 2^k, in the order of the integers, packed: 4k bytes.
  template <int k>
  LONGHAUL_INLINE static void StoreInOrder(U plane, std::byte* out) {
    const U by_vector = _mm256_broadcastsi128_si256(VectorByVector());
    const U codes = InOrder(_mm256_shuffle_epi8(plane, by_vector));
    U words;
    if constexpr (k == 4) {
      words = _mm256_packus_epi16(Pairs<k>(codes), Pairs<k>(codes));
    } else {
      static_assert(k == 2);
      words = _mm256_packus_epi32(Fours<k>(codes), Fours<k>(codes));
      words = _mm256_packus_epi16(words, words);
    }
    const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    if constexpr (k == 4) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_unpacklo_epi64(low, high));
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_unpacklo_epi32(low, high));
    }
  }

  LONGHAUL_INLINE static U ClampBytes(U x, uint32_t low, uint32_t high) {
    return _mm256_min_epu8(_mm256_max_epu8(x, _mm256_set1_epi8(static_cast<char>(low))),
                           _mm256_set1_epi8(static_cast<char>(high)));
  }
  LONGHAUL_INLINE static uint64_t DifferentBytes(U a, U b) {
    return static_cast<uint32_t>(~_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)));
  }

  static constexpr uint32_t kBinsAtOnce = 4;  // as registers allow
  // What the elements of a bin add up to, of up to 128 times 32.
  class OneBin {
   public:
    LONGHAUL_INLINE explicit OneBin(uint32_t bin)
        : bin_(_mm256_set1_epi8(static_cast<char>(bin))),
          units_(_mm256_setzero_si256()),
          count_(_mm256_setzero_si256()) {}
    LONGHAUL_INLINE void Add(const Planes& p) {
      const U is_mine = _mm256_cmpeq_epi8(p.bins, bin_);  // -1: both sums are negative
      units_ = _mm256_add_epi16(units_, _mm256_maddubs_epi16(p.units, is_mine));
      count_ = _mm256_sub_epi8(count_, is_mine);
    }
    LONGHAUL_INLINE uint32_t Units() const { return Across(Pairs(units_)); }
    LONGHAUL_INLINE uint32_t Count() const {
      const U eights = _mm256_sad_epu8(count_, _mm256_setzero_si256());
      return Across(_mm256_add_epi32(eights, _mm256_srli_epi64(eights, 32)));
    }

   private:
    // Words that count down from 2^16, to 2^16 - 128 * 510 at the least.
    LONGHAUL_INLINE static U Pairs(U words) {
      const U sums = _mm256_sub_epi16(_mm256_setzero_si256(), words);
      return _mm256_add_epi32(_mm256_and_si256(sums, _mm256_set1_epi32(0xFFFF)),
                              _mm256_srli_epi32(sums, 16));
    }
    LONGHAUL_INLINE static uint32_t Across(U x) {
      __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
      s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
      s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
      return static_cast<uint32_t>(_mm_cvtsi128_si32(s));
    }
    U bin_, units_, count_;
  };
};

}  // namespace longhaul::avx2
