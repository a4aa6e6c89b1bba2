#pragma once

#include <immintrin.h>

#include <cstddef>

#include "compressors/numbers/small_floats.h"

// Orders of the sixteen bytes of a lane, for shuffles of AVX2 and AVX-512.
namespace longhaul {

// Shuffle control: the first bytes of four words, then their second bytes, and so on.
LONGHAUL_INLINE __m128i FourByFour() {
  return _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

// Byte j of two times k bytes that stand eight apart, as a shuffle control.
template <int k>
consteval char SideBySide(int j) {
  return static_cast<char>(j < k ? j : j < 2 * k ? 8 + j - k : -1);
}
// Shuffle control: two words of k <= 7 bytes, eight apart, side by side.
template <int k>
LONGHAUL_INLINE __m128i WordsSideBySide() {
  return _mm_setr_epi8(SideBySide<k>(0), SideBySide<k>(1), SideBySide<k>(2), SideBySide<k>(3),
                       SideBySide<k>(4), SideBySide<k>(5), SideBySide<k>(6), SideBySide<k>(7),
                       SideBySide<k>(8), SideBySide<k>(9), SideBySide<k>(10), SideBySide<k>(11),
                       SideBySide<k>(12), SideBySide<k>(13), -1, -1);
}

}  // namespace longhaul
