#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "compressors/numbers/small_floats.h"

namespace longhaul {

// Whole numbers that order as the floats do; not for NaN, and -0 comes before 0.
LONGHAUL_INLINE uint32_t OrderedKey(float x) {
  const uint32_t u = BitsOf(x);
  return u ^ ((u >> 31) != 0 ? ~0u : 1u << 31);
}
LONGHAUL_INLINE float FromOrderedKey(uint32_t key) {
  return FromBits(key ^ ((key >> 31) != 0 ? 1u << 31 : ~0u));
}

// Sorts floats by three passes over eleven bits each of their keys. The caller lends memory for the
// keys twice.
class RadixSort {
 public:
  // Room for as many keys as will be added.
  RadixSort(std::span<uint32_t> keys, std::span<uint32_t> others) : keys_(keys), others_(others) {}

  void Add(std::span<const float> values) {
    for (float value : values) {
      const uint32_t key = OrderedKey(value);
      for (size_t pass = 0; pass < kPasses; ++pass) ++begins_[pass][Digit(key, pass)];
      keys_[count_++] = key;
    }
  }
  // Once, after the last Add; Value(i) is the i-th smallest from then on.
  void Sort() {
    for (size_t pass = 0; pass < kPasses; ++pass) {
      uint32_t begin = 0;
      for (uint32_t& b : begins_[pass]) begin += std::exchange(b, begin);
      for (uint32_t key : keys_.first(count_)) others_[begins_[pass][Digit(key, pass)]++] = key;
      std::swap(keys_, others_);
    }
  }
  float Value(size_t i) const { return FromOrderedKey(keys_[i]); }
  size_t count() const { return count_; }

 private:
  static constexpr size_t kPasses = 3, kDigitBits = 11;
  static size_t Digit(uint32_t key, size_t pass) {
    return key >> (kDigitBits * pass) & ((1u << kDigitBits) - 1);
  }

  std::span<uint32_t> keys_, others_;
  size_t count_ = 0;
  // How many keys have each digit; then where the next one of them goes.
  std::array<std::array<uint32_t, size_t{1} << kDigitBits>, kPasses> begins_ = {};
};

}  // namespace longhaul
