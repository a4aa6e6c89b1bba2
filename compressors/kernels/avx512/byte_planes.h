#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/avx512/packing.h"
#include "compressors/kernels/byte_order.h"

namespace longhaul::avx512 {

// Of two vectors: byte 0 of every integer, then byte 1.
constexpr ByteSources LowBytesOfTwo() {
  ByteSources from = {};
  for (size_t j = 0; j < 64; ++j) from.of[j] = static_cast<uint8_t>(j % 32 * 4 + j / 32);
  return from;
}

// The bytes of 64 integers in planes, and what stat_bins.h does with those, for lanes.h.
struct BytePlanes : Packing {
  // The lowest two bytes of 64 integers.
  struct Planes {
    U units, bins;
  };
  LONGHAUL_INLINE static constexpr size_t PlaceOfByte(size_t j) { return j; }
  LONGHAUL_INLINE static Planes SplitBytes(const U* x) {
    static constexpr ByteSources kFrom = LowBytesOfTwo();
    const U from = _mm512_loadu_si512(kFrom.of);
    const U a = _mm512_permutex2var_epi8(x[0], from, x[1]);
    const U b = _mm512_permutex2var_epi8(x[2], from, x[3]);
    return {_mm512_inserti64x4(a, _mm512_castsi512_si256(b), 1), _mm512_shuffle_i64x2(a, b, 0xEE)};
  }
  // A plane's bytes, each below 2^k, in the order of the integers, packed: 8k bytes.
  template <int k>
  LONGHAUL_INLINE static void StoreInOrder(U plane, std::byte* out) {
    if constexpr (k == 4) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi16_epi8(Pairs<k>(plane)));
    } else {
      static_assert(k == 2);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(Fours<k>(plane)));
    }
  }

  LONGHAUL_INLINE static U ClampBytes(U x, uint32_t low, uint32_t high) {
    return _mm512_min_epu8(_mm512_max_epu8(x, _mm512_set1_epi8(static_cast<char>(low))),
                           _mm512_set1_epi8(static_cast<char>(high)));
  }
  LONGHAUL_INLINE static uint64_t DifferentBytes(U a, U b) {
    return ~static_cast<uint64_t>(_mm512_cmpeq_epi8_mask(a, b));
  }

  static constexpr uint32_t kBinsAtOnce = 8;  // as registers allow
  // Sums over one bin, of up to 64 times 64 elements.
  class OneBin {
   public:
    LONGHAUL_INLINE explicit OneBin(uint32_t bin)
        : ones_(OneAt(bin)), units_(_mm512_setzero_si512()), count_(_mm512_setzero_si512()) {}
    LONGHAUL_INLINE void Add(const Planes& p) {
      const U is_mine = _mm512_shuffle_epi8(ones_, p.bins);
      AddDots(units_, p.units, is_mine);
      count_ = _mm512_add_epi8(count_, is_mine);
    }
    LONGHAUL_INLINE uint32_t Units() const { return Total(units_); }
    LONGHAUL_INLINE uint32_t Count() const {
      return Total(_mm512_sad_epu8(count_, _mm512_setzero_si512()));
    }

   private:
    LONGHAUL_INLINE static uint32_t Total(U x) {
      return static_cast<uint32_t>(_mm512_reduce_add_epi32(x));
    }
    U ones_, units_, count_;
  };

 private:
  LONGHAUL_INLINE static void AddDots(U& sum, U a, U b) {
#if defined(__AVX512VNNI__)
    // The intrinsic makes GCC 12 copy every sum before and after the addition.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else  // a test's library of intrinsics
    sum = _mm512_dpbusd_epi32(sum, a, b);
#endif
  }
  // 1 at that byte of each sixteen, 0 elsewhere, to be looked up by codes below 16.
  LONGHAUL_INLINE static U OneAt(uint32_t bin) {
    const __m128i all = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i mine = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(bin)));
    return _mm512_broadcast_i32x4(_mm_and_si128(mine, _mm_set1_epi8(1)));
  }
};

}  // namespace longhaul::avx512
