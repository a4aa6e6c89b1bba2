#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/numbers/small_floats.h"

// How bins find their elements in planes of bytes (stat_bins.h): what avx2/byte_planes.h and
// avx512/byte_planes.h share.
namespace longhaul {

// Of the elements of two bins, in one chunk: sums of their places, and how many they are.
struct TwoBinSums {
  uint32_t units[2], count[2];
};

// Two bins, each by itself.
template <class Planes, class OneBin>
class TwoOf {
 public:
  static constexpr size_t kMostGroups = 128;  // that may join before Settle
  LONGHAUL_INLINE void Choose(uint32_t low, uint32_t high) {
    low_.Choose(low);
    high_.Choose(high);
  }
  LONGHAUL_INLINE void Join(const Planes& p) {
    low_.Join(p);
    high_.Join(p);
  }
  LONGHAUL_INLINE void Settle() {}
  LONGHAUL_INLINE TwoBinSums Totals() const {
    return {{low_.Units(), high_.Units()}, {low_.Count(), high_.Count()}};
  }

 private:
  OneBin low_, high_;
};

}  // namespace longhaul
