#pragma once

#include "compressors/kernels/loops.h"

// The loops of top_k.h, compiled per instruction set as loops.h says.
namespace longhaul {

// A chunk and a half: little is computed between two chunks, and memory works through that time
// too.
constexpr size_t kTopKAhead = 6 * kSumChunk;

// Appends the positions of the bits of `word`, counted from `base`, to found[at...]; answers the
// new end. Writes up to four entries beyond it: most words hold no more bits, and no branch is
// mistaken.
template <class L>
LONGHAUL_INLINE size_t PutPositions(uint64_t word, uint32_t base, uint32_t* found, size_t at) {
  if constexpr (L::kWidth > 1) {
    const auto count = static_cast<size_t>(__builtin_popcountll(word));
    for (size_t i = 0; i < 4; ++i, word &= word - 1) {
      found[at + i] = base + static_cast<uint32_t>(__builtin_ctzll(word | uint64_t{1} << 63));
    }
    for (size_t i = 4; i < count; ++i, word &= word - 1) {
      found[at + i] = base + static_cast<uint32_t>(__builtin_ctzll(word));
    }
    return at + count;
  } else {
    for (; word != 0; word &= word - 1) {
      found[at++] = base + static_cast<uint32_t>(__builtin_ctzll(word));
    }
    return at;
  }
}

template <class L>
size_t LoopSurvivors(const float* x, size_t n, uint32_t bits, uint32_t* found) {
  size_t i = 0, count = 0;
  if constexpr (requires { L::StoreReaching(x, bits, 0u, found); }) {
    for (; i + L::kWidth <= n; i += L::kWidth) {
      PrefetchBehind(x + i, kTopKAhead);
      count += L::StoreReaching(x + i, bits, static_cast<uint32_t>(i), found + count);
    }
  } else {
    for (; i + 64 <= n; i += 64) {
      uint64_t word = 0;
      for (size_t j = 0; j < 64; j += L::kWidth) {
        if (j % 16 == 0) PrefetchBehind(x + i + j, kTopKAhead);
        word |= uint64_t{L::AtLeastMask(x + i + j, bits)} << j;
      }
      count = PutPositions<L>(word, static_cast<uint32_t>(i), found, count);
    }
  }
  uint64_t word = 0;
  for (size_t j = 0; i + j < n; ++j) {
    word |= uint64_t{(BitsOf(x[i + j]) & kAbsMask) >= bits} << j;
  }
  return PutPositions<L>(word, static_cast<uint32_t>(i), found, count);
}

// How many of m [n, a multiple of 16] are `least` > 0 or more.
template <class L>
LONGHAUL_INLINE size_t CountAtLeast(const uint32_t* m, size_t n, uint32_t least) {
  if constexpr (L::kWidth > 1) {
    typename L::U count = L::Zero();
    for (size_t i = 0; i < n; i += L::kWidth) {
      const typename L::F v =
          L::template Load<DType::kF32>(reinterpret_cast<const std::byte*>(m + i));
      count = L::AddBits(count, L::KeepAtLeast(L::SplatBits(1), L::Bits(v), least));
    }
    return L::SumAcross(count);
  } else {
    size_t count = 0;
    for (size_t i = 0; i < n; ++i) count += m[i] >= least ? 1 : 0;
    return count;
  }
}

// The largest of m [n, a multiple of 16], all below 2^31.
template <class L>
LONGHAUL_INLINE uint32_t LargestOf(const uint32_t* m, size_t n) {
  if constexpr (L::kWidth > 1) {
    typename L::U top = L::Zero();
    for (size_t i = 0; i < n; i += L::kWidth) {
      const auto* at = reinterpret_cast<const std::byte*>(m + i);
      top = L::MaxBits(top, L::Bits(L::template Load<DType::kF32>(at)));
    }
    return L::MaxAcross(top);
  } else {
    uint32_t top = 0;
    for (size_t i = 0; i < n; ++i) top = m[i] > top ? m[i] : top;
    return top;
  }
}

template <class L>
uint32_t LoopKthMagnitude(const float* x, const uint32_t* found, size_t count, size_t k,
                          uint32_t least, uint32_t* magnitudes) {
  for (size_t i = 0; i < count; ++i) magnitudes[i] = BitsOf(x[found[i]]) & kAbsMask;
  size_t padded = count;
  for (; padded % 16 != 0; ++padded) magnitudes[padded] = 0;
  const uint32_t largest = LargestOf<L>(magnitudes, padded);
  if (largest >= kInfBits || count == k) return largest >= kInfBits ? largest : least;
  // Most survivors lie near `least`, and so does the k-th: steps grow from there.
  uint32_t low = least, high = largest + 1;  // k or more reach low, fewer reach high
  for (uint32_t step = uint32_t{1} << 19; high - low > 1;) {
    const uint32_t half = (high - low) / 2, middle = low + (half < step ? half : step);
    const size_t reach = CountAtLeast<L>(magnitudes, padded, middle);
    if (reach == k) return middle;
    low = reach > k ? middle : low;
    high = reach > k ? high : middle;
    step *= step < uint32_t{1} << 30 ? 2 : 1;
  }
  return low;
}

template <class L>
size_t LoopKeepAtLeast(const uint32_t* found, const uint32_t* magnitudes, size_t count,
                       uint32_t least, uint32_t* kept) {
  size_t n = 0;
  if constexpr (requires { L::StoreKept(found, magnitudes, least, kept); }) {
    for (size_t i = 0; i < count; i += L::kWidth)
      n += L::StoreKept(found + i, magnitudes + i, least, kept + n);
  } else {
    for (size_t i = 0; i < count; ++i) {
      kept[n] = found[i];
      n += magnitudes[i] >= least;
    }
  }
  return n;
}

}  // namespace longhaul
