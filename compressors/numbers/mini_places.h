#pragma once

#include <cstddef>

#include "compressors/numbers/mini_floats.h"

// How lanes make codes of four-bit floats. Where codes change lies on numbers of the form
// i 2^kEdgeShift, i an integer, as bits: so a magnitude's code is known by its place, the numbers
// of edges at or below and below it added up, and a place fits into a byte that a table turns into
// the code. Ties, which are edges, are told from what lies next to them.
namespace longhaul {

template <MiniFloat kType>
struct MiniPlaces {
  static constexpr MiniFormat kFormat = FormatOf(kType);
  static_assert(kFormat.bits == 4);
  static constexpr int kEdgeShift = 22 - kFormat.mantissa;
  // The place of the largest magnitude that rounds to 0: half the smallest one, a tie.
  static constexpr uint32_t kFirst =
      BitsOf(PowerOfTwo(-kFormat.bias - kFormat.mantissa)) >> kEdgeShift << 1;
  static constexpr size_t kCount = 64;  // more than up to the largest finite value

  // By place - kFirst, below which everything is 0 and beyond whose last one the largest value.
  struct Table {
    int8_t of[kCount];
  };
  static constexpr Table Codes() {
    Table codes = {};
    for (uint32_t p = 0; p < kCount; ++p) {
      const uint32_t place = kFirst + p;
      const float magnitude = FromBits((place / 2 << kEdgeShift) + place % 2);
      codes.of[p] = static_cast<int8_t>(F32ToMini(magnitude, kType));
    }
    return codes;
  }
};

}  // namespace longhaul
