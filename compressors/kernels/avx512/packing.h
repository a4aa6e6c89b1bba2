#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/block_scheme.h"
#include "compressors/kernels/byte_order.h"
#include "compressors/numbers/mini_places.h"

namespace longhaul::avx512 {

// Word 4i + j of 32 bits goes to 4j + i.
LONGHAUL_INLINE __m512i TurnedWords(__m512i x) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}

// Byte j comes from byte of[j].
struct ByteSources {
  uint8_t of[64];
};

// The first of every kWidth bytes of what TurnedWords would make.
template <int kWidth>
constexpr ByteSources FirstBytesInOrder() {
  ByteSources from = {};
  for (size_t j = 0; j < 64 / kWidth; ++j) {
    const size_t byte = j * kWidth, word = byte / 4;
    from.of[j] = static_cast<uint8_t>(4 * (word % 4 * 4 + word / 4) + byte % 4);
  }
  return from;
}

// Where each byte comes from when the first k of every 8 are put side by side.
template <int k>
constexpr ByteSources BytesOfWords() {
  ByteSources from = {};
  for (int j = 0; j < 8 * k; ++j) {
    from.of[static_cast<size_t>(j)] = static_cast<uint8_t>(8 * (j / k) + j % k);
  }
  return from;
}

// Codes to and from bytes, for lanes.h.
struct Packing {
  using U = __m512i;

  // q: 64 rounded values -> clamped to the grid, offset, packed. Writes up to 8 bytes beyond.
  template <BlockScheme kScheme>
  LONGHAUL_INLINE static void StoreCodes(const U* q, std::byte* out) {
    const U codes = Bytes<kScheme>(q);
    constexpr int k = kScheme.bits;
    if constexpr (k == 8) {
      _mm512_storeu_si512(out, InOrder(codes));
    } else if constexpr (k == 4) {
      StoreNibbles(codes, out);
    } else if constexpr (k == 2) {  // one store, so that what follows may load all of it
      static constexpr auto kFrom = FirstBytesInOrder<4>();
      StoreLane(_mm512_castsi512_si128(LookUp(kFrom, Fours<k>(codes))), out);
    } else {
      static constexpr auto kFrom = BytesOfWords<k>();
      const U bytes = _mm512_maskz_permutexvar_epi8(
          ~uint64_t{0} >> (64 - 8 * k), _mm512_loadu_si512(kFrom.of), Eights<k>(InOrder(codes)));
      if constexpr (k == 7) {
        _mm512_storeu_si512(out, bytes);
      } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(bytes));
        if constexpr (k > 4) StoreLane(_mm512_extracti32x4_epi32(bytes, 2), out + 32);
      }
    }
  }

  // 64 codes of floats of four bits from places (mini_places.h) and sign bits.
  template <MiniFloat kType>
  LONGHAUL_INLINE static void StorePlaces(const U* places, const U* signs, std::byte* out) {
    static constexpr auto kCodes = MiniPlaces<kType>::Codes();
    const U first = _mm512_set1_epi16(static_cast<int16_t>(MiniPlaces<kType>::kFirst));
    const U low = _mm512_subs_epu16(_mm512_packus_epi32(places[0], places[1]), first);
    const U high = _mm512_subs_epu16(_mm512_packus_epi32(places[2], places[3]), first);
    const U at = _mm512_min_epu8(_mm512_packus_epi16(low, high), _mm512_set1_epi8(63));
    const U sign = _mm512_packs_epi16(_mm512_packs_epi32(signs[0], signs[1]),
                                      _mm512_packs_epi32(signs[2], signs[3]));
    const U codes = _mm512_or_si512(_mm512_permutexvar_epi8(at, _mm512_loadu_si512(kCodes.of)),
                                    _mm512_srli_epi16(sign, 4));
    StoreNibbles(codes, out);
  }

  // Sixteen codes from 2k bytes. Reads up to 12 bytes beyond.
  template <int k>
  LONGHAUL_INLINE static U LoadCodes(const std::byte* p) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    if constexpr (k == 8) {
      return _mm512_cvtepu8_epi32(packed);
    } else {
      // Each lane gets the two bytes in which its code lies, then shifts.
      const U at = _mm512_setr_epi32(At<k>(0), At<k>(1), At<k>(2), At<k>(3), At<k>(4), At<k>(5),
                                     At<k>(6), At<k>(7), At<k>(8), At<k>(9), At<k>(10), At<k>(11),
                                     At<k>(12), At<k>(13), At<k>(14), At<k>(15));
      const U shifts = _mm512_setr_epi32(0, k % 8, 2 * k % 8, 3 * k % 8, 4 * k % 8, 5 * k % 8,
                                         6 * k % 8, 7 * k % 8, 0, k % 8, 2 * k % 8, 3 * k % 8,
                                         4 * k % 8, 5 * k % 8, 6 * k % 8, 7 * k % 8);
      const U bytes = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(packed), at);
      return _mm512_and_si512(_mm512_srlv_epi32(bytes, shifts), _mm512_set1_epi32((1 << k) - 1));
    }
  }

 protected:
  // Shuffle control: byte jk/8 and the next one, the upper two bytes zero.
  template <int k>
  static consteval int At(int j) {
    return static_cast<int>(0x80800000u | static_cast<uint32_t>((j * k / 8 + 1) << 8 | j * k / 8));
  }

  // Four vectors of 16 -> 64 codes as bytes, not in order.
  template <BlockScheme kScheme>
  LONGHAUL_INLINE static U Bytes(const U* q) {
    const U low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
    U codes;
    if constexpr (kScheme.grid == Grid::kSymmetric) {
      const U top = _mm512_set1_epi8(static_cast<char>(Levels(kScheme)));
      const U bottom = _mm512_set1_epi8(static_cast<char>(-Levels(kScheme)));
      codes = _mm512_packs_epi16(low, high);
      codes = _mm512_max_epi8(_mm512_min_epi8(codes, top), bottom);
      codes = _mm512_add_epi8(codes, _mm512_set1_epi8(static_cast<char>(CodeOffset(kScheme))));
    } else {
      codes = _mm512_min_epu8(_mm512_packus_epi16(low, high),
                              _mm512_set1_epi8(static_cast<char>(Levels(kScheme))));
    }
    return codes;
  }
  // Packing works inside 128-bit lanes: word 4i + l of the codes stands at 4l + i.
  LONGHAUL_INLINE static U InOrder(U codes) { return TurnedWords(codes); }
  // 64 codes -> 32 words of 2k bits. The constant is the unsigned operand: 2^7 fits, codes < 2^7.
  template <int k>
  LONGHAUL_INLINE static U Pairs(U codes) {
    return _mm512_maddubs_epi16(_mm512_set1_epi16(static_cast<int16_t>(1 | 1 << (k + 8))), codes);
  }
  // 64 codes -> 16 words of 4k bits.
  template <int k>
  LONGHAUL_INLINE static U Fours(U codes) {
    return _mm512_madd_epi16(Pairs<k>(codes), _mm512_set1_epi32(1 | 1 << (2 * k + 16)));
  }
  // 64 codes -> 8 words of 8k bits.
  template <int k>
  LONGHAUL_INLINE static U Eights(U codes) {
    const U fours = Fours<k>(codes);
    const U low = _mm512_and_si512(fours, _mm512_set1_epi64(0xFFFFFFFF));
    return _mm512_or_si512(low, _mm512_slli_epi64(_mm512_srli_epi64(fours, 32), 4 * k));
  }
  LONGHAUL_INLINE static U LookUp(const ByteSources& from, U bytes) {
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(from.of), bytes);
  }
  // 64 codes of four bits, not in order yet.
  LONGHAUL_INLINE static void StoreNibbles(U codes, std::byte* out) {
    static constexpr auto kFrom = FirstBytesInOrder<2>();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                        _mm512_castsi512_si256(LookUp(kFrom, Pairs<4>(codes))));
  }
  LONGHAUL_INLINE static void StoreLane(__m128i x, std::byte* out) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), x);
  }
};

}  // namespace longhaul::avx512
