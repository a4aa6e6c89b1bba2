#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/avx2/byte_order.h"
#include "compressors/avx512/packing.h"

namespace longhaul {

// The bytes of 64 integers in planes, and what stat_bins.h does with those, for Avx512Lanes.
struct Avx512BytePlanes : Avx512Packing {
  // Byte 0, 1 and 2 of 64 integers. In the order of PlaceInVectors.
  struct Planes {
    U low, middle, high;
  };
  static constexpr size_t PlaceOfByte(size_t j) { return PlaceInVectors<16>(j); }
  LONGHAUL_INLINE static Planes SplitBytes(const U* x) {
    const U lower = _mm512_set1_epi32(0xFFFF), even = _mm512_set1_epi16(0xFF);
    const U a = Choose(lower, x[0], _mm512_slli_epi32(x[1], 16));
    const U b = Choose(lower, x[2], _mm512_slli_epi32(x[3], 16));
    const U c = Choose(lower, _mm512_srli_epi32(x[0], 16), x[1]);
    const U d = Choose(lower, _mm512_srli_epi32(x[2], 16), x[3]);
    return {Choose(even, a, _mm512_slli_epi16(b, 8)), Choose(even, _mm512_srli_epi16(a, 8), b),
            Choose(even, c, _mm512_slli_epi16(d, 8))};
  }
  // A plane's bytes, each below 2^k, in the order of the integers, packed: 8k bytes.
  template <int k>
  LONGHAUL_INLINE static void StoreInOrder(U plane, std::byte* out) {
    const U by_vector = _mm512_broadcast_i32x4(VectorByVector());
    const U codes = InOrder(_mm512_shuffle_epi8(plane, by_vector));
    if constexpr (k == 4) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi16_epi8(Pairs<k>(codes)));
    } else {
      static_assert(k == 2);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(Fours<k>(codes)));
    }
  }

  LONGHAUL_INLINE static U HoldBytes(U x, uint32_t low, uint32_t high) {
    return _mm512_min_epu8(_mm512_max_epu8(x, _mm512_set1_epi8(static_cast<char>(low))),
                           _mm512_set1_epi8(static_cast<char>(high)));
  }
  // Bit j: byte j of a is not that of b.
  LONGHAUL_INLINE static uint64_t DifferentBytes(U a, U b) {
    return ~static_cast<uint64_t>(_mm512_cmpeq_epi8_mask(a, b));
  }

  // What the elements of one bin add up to, of up to 64 times 64.
  class OneBin {
   public:
    LONGHAUL_INLINE explicit OneBin(uint32_t bin)
        : ones_(OneAt(bin)), low_(_mm512_setzero_si512()), middle_(low_), count_(low_) {}
    LONGHAUL_INLINE void Join(const Planes& p) {
      const U is_mine = _mm512_shuffle_epi8(ones_, p.high);
      low_ = _mm512_dpbusd_epi32(low_, p.low, is_mine);
      middle_ = _mm512_dpbusd_epi32(middle_, p.middle, is_mine);
      count_ = _mm512_add_epi8(count_, is_mine);
    }
    // Of the two lower bytes together.
    LONGHAUL_INLINE uint32_t Units() const {
      return Total(_mm512_add_epi32(low_, _mm512_slli_epi32(middle_, 8)));
    }
    LONGHAUL_INLINE uint32_t Count() const {
      return Total(_mm512_sad_epu8(count_, _mm512_setzero_si512()));
    }

   private:
    // 1 at a byte of each sixteen, to be looked up by codes below 16.
    LONGHAUL_INLINE static U OneAt(uint32_t bin) {
      const __m128i all = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m128i mine = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(bin)));
      return _mm512_broadcast_i32x4(_mm_and_si128(mine, _mm_set1_epi8(1)));
    }
    LONGHAUL_INLINE static uint32_t Total(U x) {
      return static_cast<uint32_t>(_mm512_reduce_add_epi32(x));
    }
    U ones_, low_, middle_, count_;
  };

 private:
  // Bit by bit: which ? a : b.
  LONGHAUL_INLINE static U Choose(U which, U a, U b) {
    return _mm512_ternarylogic_epi32(which, a, b, 0xCA);
  }
};

}  // namespace longhaul
