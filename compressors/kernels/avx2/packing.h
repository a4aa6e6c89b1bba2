#pragma once

#include <immintrin.h>

#include <cstddef>

#include "compressors/kernels/block_scheme.h"
#include "compressors/kernels/byte_order.h"
#include "compressors/numbers/mini_places.h"

namespace longhaul::avx2 {

// Codes to and from bytes, for lanes.h.
struct Packing {
  using U = __m256i;

  // q: 64 rounded values -> clamped to the grid, offset, packed. Writes up to 10 bytes beyond.
  template <BlockScheme kScheme>
  LONGHAUL_INLINE static void StoreCodes(const U* q, std::byte* out) {
    const U first = Bytes<kScheme>(q), second = Bytes<kScheme>(q + 4);  // codes 0..31, 32..63
    constexpr int k = kScheme.bits;
    if constexpr (k == 8) {
      StoreWhole(first, out);
      StoreWhole(second, out + 32);
    } else if constexpr (k == 4) {
      const U nibbles = _mm256_packus_epi16(Pairs<k>(first), Pairs<k>(second));
      StoreWhole(_mm256_permute4x64_epi64(nibbles, 0xD8), out);
    } else if constexpr (k == 2) {  // one store, so that what follows may load all of it
      const U words = _mm256_packus_epi32(Fours<k>(first), Fours<k>(second));
      const U bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words),
                                                  _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes));
    } else {
      StoreEights<k>(Eights<k>(first), out);
      StoreEights<k>(Eights<k>(second), out + 4 * k);
    }
  }

  // 64 codes of floats of four bits from places (mini_places.h) and sign bits.
  template <MiniFloat kType>
  LONGHAUL_INLINE static void StorePlaces(const U* places, const U* signs, std::byte* out) {
    const U first = OfPlaces<kType>(places, signs);
    const U second = OfPlaces<kType>(places + 4, signs + 4);
    const U nibbles = _mm256_packus_epi16(Pairs<4>(first), Pairs<4>(second));
    StoreWhole(_mm256_permute4x64_epi64(nibbles, 0xD8), out);
  }

  // Eight codes from k bytes. Reads up to 6 bytes beyond.
  template <int k>
  LONGHAUL_INLINE static U LoadCodes(const std::byte* p) {
    if constexpr (k == 8) {
      return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    } else if constexpr (k == 4) {
      int word;
      __builtin_memcpy(&word, p, 4);
      const U shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
      return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(word), shifts),
                              _mm256_set1_epi32(15));
    } else {
      long long word;
      __builtin_memcpy(&word, p, 8);
      // Each lane gets the two bytes in which its code lies, then shifts.
      const U bytes = _mm256_shuffle_epi8(
          _mm256_set1_epi64x(word), _mm256_setr_epi32(At<k>(0), At<k>(1), At<k>(2), At<k>(3),
                                                      At<k>(4), At<k>(5), At<k>(6), At<k>(7)));
      const U shifts = _mm256_setr_epi32(0, k % 8, 2 * k % 8, 3 * k % 8, 4 * k % 8, 5 * k % 8,
                                         6 * k % 8, 7 * k % 8);
      return _mm256_and_si256(_mm256_srlv_epi32(bytes, shifts), _mm256_set1_epi32((1 << k) - 1));
    }
  }

 protected:
  // Shuffle control: byte jk/8 and the next one, the upper two bytes zero.
  template <int k>
  static consteval int At(int j) {
    return static_cast<int>(0x80800000u | static_cast<uint32_t>((j * k / 8 + 1) << 8 | j * k / 8));
  }

  LONGHAUL_INLINE static void StoreWhole(U x, std::byte* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
  }

  // Four vectors of 8 -> 32 codes as bytes, in order.
  template <BlockScheme kScheme>
  LONGHAUL_INLINE static U Bytes(const U* q) {
    const U low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);
    U codes;
    if constexpr (kScheme.grid == Grid::kSymmetric) {
      const U top = _mm256_set1_epi8(static_cast<char>(Levels(kScheme)));
      const U bottom = _mm256_set1_epi8(static_cast<char>(-Levels(kScheme)));
      codes = _mm256_packs_epi16(low, high);
      codes = _mm256_max_epi8(_mm256_min_epi8(codes, top), bottom);
      codes = _mm256_add_epi8(codes, _mm256_set1_epi8(static_cast<char>(CodeOffset(kScheme))));
    } else {
      codes = _mm256_min_epu8(_mm256_packus_epi16(low, high),
                              _mm256_set1_epi8(static_cast<char>(Levels(kScheme))));
    }
    return InOrder(codes);
  }
  // The same from places: what each table of sixteen adds to the one before.
  template <MiniFloat kType>
  LONGHAUL_INLINE static U OfPlaces(const U* places, const U* signs) {
    static constexpr auto kSteps = StepsOfPlaces<kType>();
    const U first = _mm256_set1_epi16(static_cast<int16_t>(MiniPlaces<kType>::kFirst));
    const U low = _mm256_subs_epu16(_mm256_packus_epi32(places[0], places[1]), first);
    const U high = _mm256_subs_epu16(_mm256_packus_epi32(places[2], places[3]), first);
    const U last = _mm256_set1_epi8(15);
    U at = _mm256_packus_epi16(low, high);
    U codes = _mm256_setzero_si256();
    for (const auto& steps : kSteps.of) {
      const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(steps));
      codes = _mm256_add_epi8(codes, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table),
                                                         _mm256_min_epu8(at, last)));
      at = _mm256_subs_epu8(at, last);
    }
    const U sign = _mm256_packs_epi16(_mm256_packs_epi32(signs[0], signs[1]),
                                      _mm256_packs_epi32(signs[2], signs[3]));
    return InOrder(_mm256_or_si256(codes, _mm256_srli_epi16(sign, 4)));
  }
  struct Steps {
    int8_t of[3][16];
  };
  // How much code 15t + j is above code 15t, for t = 0..2; beyond that all are the same.
  template <MiniFloat kType>
  static constexpr Steps StepsOfPlaces() {
    constexpr auto kCodes = MiniPlaces<kType>::Codes();
    static_assert(kCodes.of[45] == kCodes.of[MiniPlaces<kType>::kCount - 1]);
    Steps steps = {};
    for (size_t t = 0; t < 3; ++t) {
      for (size_t j = 0; j < 16; ++j) {
        steps.of[t][j] = static_cast<int8_t>(kCodes.of[15 * t + j] - kCodes.of[15 * t]);
      }
    }
    return steps;
  }
  // Packing works inside 128-bit lanes: word 2i + l of the codes stands at 4l + i.
  LONGHAUL_INLINE static U InOrder(U codes) {
    return _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  // 32 codes -> 16 words of 2k bits. The constant is the unsigned operand: 2^7 fits, codes < 2^7.
  template <int k>
  LONGHAUL_INLINE static U Pairs(U codes) {
    return _mm256_maddubs_epi16(_mm256_set1_epi16(static_cast<int16_t>(1 | 1 << (k + 8))), codes);
  }
  // 32 codes -> 8 words of 4k bits.
  template <int k>
  LONGHAUL_INLINE static U Fours(U codes) {
    return _mm256_madd_epi16(Pairs<k>(codes), _mm256_set1_epi32(1 | 1 << (2 * k + 16)));
  }
  // 32 codes -> 4 words of 8k bits.
  template <int k>
  LONGHAUL_INLINE static U Eights(U codes) {
    const U fours = Fours<k>(codes);
    const U low = _mm256_and_si256(fours, _mm256_set1_epi64x(0xFFFFFFFF));
    return _mm256_or_si256(low, _mm256_slli_epi64(_mm256_srli_epi64(fours, 32), 4 * k));
  }
  // The two words of each 128-bit lane, k bytes each, side by side.
  template <int k>
  LONGHAUL_INLINE static void StoreEights(U words, std::byte* out) {
    const U packed = _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(WordsSideBySide<k>()));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(packed));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * k), _mm256_extracti128_si256(packed, 1));
  }
};

}  // namespace longhaul::avx2
