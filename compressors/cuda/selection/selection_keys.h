#pragma once

#include "compressors/cuda/selection/selection_launch.h"
#include "compressors/cuda/team/elements.h"

// What the kernels of TopK compare. A magnitude is |x| as the bits that its dtype has, plus one; a
// key is a magnitude with x's sign below it; 0 is no element in either. So keys order as |x| does,
// and an element comes back out of its key.
namespace longhaul {

// The least magnitude that is not finite.
template <DType kType>
constexpr uint32_t kInfMagnitude = 1 + (kType == DType::kF32    ? 0x7F800000u
                                        : kType == DType::kBF16 ? 0x7F80u
                                                                : 0x7C00u);

template <DType kType>
LONGHAUL_TEXT uint32_t KeyOf(uint32_t bits) {
  constexpr int kSign = kType == DType::kF32 ? 31 : 15;
  constexpr uint32_t kSignBit = uint32_t{1} << kSign;
  return ((bits & (kSignBit - 1)) + 1) << 1 | bits >> kSign;
}

template <DType kType>
LONGHAUL_TEXT float ValueOf(uint32_t key) {
  constexpr int kSign = kType == DType::kF32 ? 31 : 15;
  const uint32_t bits = ((key >> 1) - 1) | key << kSign;
  if constexpr (kType == DType::kF32) {
    return FromBits(bits);
  } else {
    const auto half = static_cast<uint16_t>(bits);
    return kType == DType::kBF16 ? Bf16ToF32(half) : F16ToF32(half);
  }
}

// The bits of one element.
template <DType kType>
LONGHAUL_TEXT uint32_t BitsAt(const RawEight<kType>& raw, int e) {
  if constexpr (kType == DType::kF32) {
    return raw.quad[e / 4].word[e % 4];
  } else {
    const uint32_t pair = raw.quad[0].word[e / 2];
    return e % 2 == 0 ? pair & 0xFFFF : pair >> 16;
  }
}

// The largest magnitude of eight; elements that are none must be zeros.
template <DType kType>
LONGHAUL_TEXT uint32_t LargestMagnitude(const RawEight<kType>& raw) {
  uint32_t top = 0, low_top = 0;
  LONGHAUL_UNROLL
  for (int i = 0; i < RawEight<kType>::kQuads; ++i) {
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {
      const uint32_t word = raw.quad[i].word[j];
      const uint32_t here = word & 0x7FFFFFFF, low = word & 0x7FFF;
      top = here > top ? here : top;
      low_top = low > low_top ? low : low_top;
    }
  }
  if constexpr (kType == DType::kF32) return top + 1;
  return (top >> 16 > low_top ? top >> 16 : low_top) + 1;  // the low half does not order the high
}

// Where a chunk lies, and its kept elements among all.
struct ChunkPlace {
  LONGHAUL_TEXT ChunkPlace(const SelectionRun& run, uint64_t number) {
    const uint64_t row = run.rows == 1 ? 0 : number / run.row_chunks;
    const uint64_t in_row = number - row * run.row_chunks;
    first = row * run.cols + in_row * run.chunk;
    const uint64_t left = run.cols - in_row * run.chunk;
    length = left < run.chunk ? static_cast<uint32_t>(left) : run.chunk;
    kept = left < run.chunk ? run.tail_kept : run.kept;
    kept_at = row * run.row_kept + in_row * run.kept;
  }
  uint64_t first, kept_at;
  uint32_t length, kept;
};

// What is kept: all above a magnitude, and of those equal to it the first `equal`.
struct Threshold {
  uint32_t magnitude, equal;
};

// A search for a threshold: at least k elements reach `low`, which `reached` do; `above` < k reach
// `high`.
struct Search {
  uint32_t low, reached, high, above;

  // Count(m) says how many elements reach m. Halves what is between until at most `enough` reach
  // low, or low is the largest that k reach.
  template <class Count>
  LONGHAUL_TEXT void Narrow(uint32_t k, uint32_t enough, Count count) {
    while (reached > enough && high - low > 1) {
      const uint32_t middle = low + (high - low) / 2, reach = count(middle);
      if (reach >= k) {
        low = middle;
        reached = reach;
      } else {
        high = middle;
        above = reach;
      }
    }
  }

  // After Narrow with enough = k.
  LONGHAUL_TEXT Threshold Exactly(uint32_t k) const {
    if (reached == k) return {low - 1, 0};
    return {low, k - above};
  }
};

}  // namespace longhaul
