#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compressors/kernels/avx2/byte_order.h"
#include "compressors/kernels/avx512/packing.h"
#include "compressors/numbers/byte_planes.h"

namespace longhaul {

// Of two vectors: byte 0 of every integer, then byte 1.
constexpr ByteSources LowBytesOfTwo() {
  ByteSources from = {};
  for (size_t j = 0; j < 64; ++j) from[j] = static_cast<uint8_t>(j % 32 * 4 + j / 32);
  return from;
}

// The bytes of 64 integers in planes, and what stat_bins.h does with those, for Avx512Lanes.
struct Avx512BytePlanes : Avx512Packing {
  // The lowest two bytes of 64 integers.
  struct Planes {
    U units, bins;
  };
  static constexpr size_t PlaceOfByte(size_t j) { return j; }
  LONGHAUL_INLINE static Planes SplitBytes(const U* x) {
    static constexpr ByteSources kFrom = LowBytesOfTwo();
    const U from = _mm512_loadu_si512(kFrom.data());
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

  LONGHAUL_INLINE static U HoldBytes(U x, uint32_t low, uint32_t high) {
    return _mm512_min_epu8(_mm512_max_epu8(x, _mm512_set1_epi8(static_cast<char>(low))),
                           _mm512_set1_epi8(static_cast<char>(high)));
  }
  // Bit j: byte j of a is not that of b.
  LONGHAUL_INLINE static uint64_t DifferentBytes(U a, U b) {
    return ~static_cast<uint64_t>(_mm512_cmpeq_epi8_mask(a, b));
  }

  static constexpr uint32_t kBinsAtOnce = 8;  // as registers allow
  // Sums over one bin, of up to 64 times 64 elements.
  class OneBin {
   public:
    LONGHAUL_INLINE void Choose(uint32_t bin) {
      ones_ = EntryAt(bin, 1);
      units_ = count_ = _mm512_setzero_si512();
    }
    LONGHAUL_INLINE void Join(const Planes& p) {
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
  // Over two, in fewer steps but with pauses: dot products with bytes that are 1 for the one and 16
  // for the other, and with those of the first alone, tell both apart, and so do nibbles of a byte
  // that counts.
  class LinkedBins {
   public:
    static constexpr size_t kMostGroups = 15;  // that a nibble counts
    LONGHAUL_INLINE void Choose(uint32_t low, uint32_t high) {
      low_ = EntryAt(low, 1);
      both_ = _mm512_or_si512(low_, EntryAt(high, 16));
      units_ = low_units_ = few_ = low_count_ = high_count_ = _mm512_setzero_si512();
    }
    LONGHAUL_INLINE void Join(const Planes& p) {
      const U both = _mm512_shuffle_epi8(both_, p.bins);
      AddDots(units_, p.units, both);
      AddDots(low_units_, p.units, _mm512_shuffle_epi8(low_, p.bins));
      few_ = _mm512_add_epi8(few_, both);
    }
    LONGHAUL_INLINE void Settle() {
      const U nibble = _mm512_set1_epi8(15);
      low_count_ = _mm512_add_epi8(low_count_, _mm512_and_si512(few_, nibble));
      high_count_ =
          _mm512_add_epi8(high_count_, _mm512_and_si512(_mm512_srli_epi16(few_, 4), nibble));
      few_ = _mm512_setzero_si512();
    }
    LONGHAUL_INLINE TwoBinSums Totals() const {
      const U zero = _mm512_setzero_si512();
      U low_count = zero, high_count = zero;
      AddDots(low_count, low_count_, _mm512_set1_epi8(1));
      AddDots(high_count, high_count_, _mm512_set1_epi8(1));
      alignas(16) uint32_t sums[4];
      _mm_store_si128(reinterpret_cast<__m128i*>(sums),
                      FourTotals(low_units_, units_, low_count, high_count));
      return {{sums[0], (sums[1] - sums[0]) / 16}, {sums[2], sums[3]}};
    }

   private:
    LONGHAUL_INLINE static __m128i FourTotals(U a, U b, U c, U d) {
      const U ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
      const U cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
      const U all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
      const U half = _mm512_add_epi32(all, _mm512_shuffle_i64x2(all, all, 0xEE));
      return _mm_add_epi32(_mm512_castsi512_si128(half),
                           _mm256_extracti128_si256(_mm512_castsi512_si256(half), 1));
    }
    U low_, both_, units_, low_units_, few_, low_count_, high_count_;
  };
  template <uint32_t kBins>
  using TwoBins = std::conditional_t<kBins == 4, TwoOf<Planes, OneBin>, LinkedBins>;

 private:
  LONGHAUL_INLINE static void AddDots(U& sum, U a, U b) {
#if defined(__AVX512VNNI__)
    // The intrinsic makes GCC 12 copy every sum before and after the addition.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else  // a test's library of intrinsics
    sum = _mm512_dpbusd_epi32(sum, a, b);
#endif
  }
  // `entry` at a byte of each sixteen, to be looked up by codes below 16.
  LONGHAUL_INLINE static U EntryAt(uint32_t bin, char entry) {
    const __m128i all = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i mine = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(bin)));
    return _mm512_broadcast_i32x4(_mm_and_si128(mine, _mm_set1_epi8(entry)));
  }
};

}  // namespace longhaul
