#pragma once

#include "compressors/kernels/kernels.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/kernels/sum_loops.h"

// Signs as bits, with sums beside them, and back: loops of loop_kernels.h, as loops.h says.
namespace longhaul {

template <class L>
size_t LoopSignBits(const float* x, size_t n, std::byte* bits) {
  size_t i = 0, count = 0;
  for (; i + 16 <= n; i += 16) {
    PrefetchNextPage(x + i);
    uint16_t word = 0;
    for (size_t j = 0; j < 16; j += L::kWidth) {
      word = static_cast<uint16_t>(word | L::NotNegativeMask(x + i + j) << j);
    }
    __builtin_memcpy(bits + i / 8, &word, 2);
    count += static_cast<size_t>(__builtin_popcount(word));
  }
  for (; i < n; i += 8) {
    unsigned word = 0;
    for (size_t j = 0; j < 8 && i + j < n; ++j) word |= (x[i + j] >= 0 ? 1u : 0u) << j;
    bits[i / 8] = static_cast<std::byte>(word);
    count += static_cast<size_t>(__builtin_popcount(word));
  }
  return count;
}

template <class L>
SignSums LoopSignSums(const float* x, size_t n, std::byte* bits) {
  float negative, positive;
  size_t count;
  uint32_t top;
  if constexpr (L::kWidth == 1) {
    count = LoopSignBits<L>(x, n, bits);
    negative = LaneSum<L>(x, n, NegativeTerm());
    positive = LaneSum<L>(x, n, PositiveTerm());
    top = LoopAbsMax<L>(x, n);
  } else {
    // All four in one reading; what does not fill the lanes is the sums' last step.
    constexpr size_t kVectors = kSumLanes / L::kWidth;
    typename L::U tops = L::Zero();
    RunningLanes<L> low, high;
    const size_t whole = n - n % kSumLanes;
    count = 0;
    for (size_t i = 0; i < whole; i += kSumLanes) {
      uint32_t word = 0;
      for (size_t k = 0; k < kVectors; ++k) {
        const auto* at = reinterpret_cast<const std::byte*>(x + i + k * L::kWidth);
        if (k * L::kWidth % 16 == 0) PrefetchNextPage(at);
        const typename L::F v = L::template Load<DType::kF32>(at);
        word |= L::NotNegativeMask(x + i + k * L::kWidth) << k * L::kWidth;
        tops = L::MaxBits(tops, L::Abs(v));
        low.Add(k, NegativeTerm().template Of<L>(v));
        high.Add(k, PositiveTerm().template Of<L>(v));
      }
      __builtin_memcpy(bits + i / 8, &word, 4);
      count += static_cast<size_t>(__builtin_popcount(word));
    }
    const float* rest = x + whole;
    count += LoopSignBits<L>(rest, n - whole, bits + whole / 8);
    negative = low.Total(rest, n - whole, NegativeTerm());
    positive = high.Total(rest, n - whole, PositiveTerm());
    top = L::MaxAcross(tops);
    for (size_t i = 0; i < n - whole; ++i) {
      top = (BitsOf(rest[i]) & kAbsMask) > top ? BitsOf(rest[i]) & kAbsMask : top;
    }
  }
  const float infinity = FromBits(kInfBits);
  if (top >= kInfBits) return {infinity, infinity, count};
  return {negative, positive, count};
}

template <class L>
void LoopExpandSigns(const std::byte* bits, size_t n, float low, float high, float* x) {
  const uint32_t a = BitsOf(low), b = BitsOf(high);
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    const typename L::F lows = L::Splat(low), highs = L::Splat(high);
    for (; i + L::kWidth <= n; i += L::kWidth) {
      L::template Store<DType::kF32>(L::Select(bits + i / 8, lows, highs),
                                     reinterpret_cast<std::byte*>(x + i));
    }
  }
  for (; i + 8 <= n; i += 8) {
    const auto byte = static_cast<uint32_t>(bits[i / 8]);
    for (size_t j = 0; j < 8; ++j) x[i + j] = FromBits((byte >> j & 1) != 0 ? b : a);
  }
  for (; i < n; ++i) x[i] = static_cast<uint32_t>(bits[i / 8]) >> (i % 8) & 1 ? high : low;
}

template <class L, class Term>
LONGHAUL_INLINE void SignBlocks(const float* x, size_t blocks, Term term, std::byte* bits,
                                float* sums) {
  static_assert(kSignBlock % kSumLanes == 0);
  constexpr size_t kVectors = kSumLanes / L::kWidth;
  for (size_t b = 0; b < blocks; ++b) {
    RunningLanes<L> lanes;
    for (size_t i = 0; i < kSignBlock; i += kSumLanes, x += kSumLanes, bits += kSumLanes / 8) {
      uint32_t word = 0;
      for (size_t k = 0; k < kVectors; ++k) {
        const float* from = x + k * L::kWidth;
        if (k * L::kWidth % 16 == 0) PrefetchNextPage(from);
        word |= L::NotNegativeMask(from) << k * L::kWidth;
        lanes.Add(k, term.template Of<L>(
                         L::template Load<DType::kF32>(reinterpret_cast<const std::byte*>(from))));
      }
      __builtin_memcpy(bits, &word, sizeof(word));
    }
    sums[b] = lanes.Total();
  }
}

template <class L>
void LoopSignBlocks(const float* x, size_t blocks, SignTerm term, std::byte* bits, float* sums) {
  if constexpr (L::kWidth > 1) {
    if (term == SignTerm::kMagnitude) return SignBlocks<L>(x, blocks, AbsTerm(), bits, sums);
    return SignBlocks<L>(x, blocks, SquareTerm{0}, bits, sums);
  } else {
    for (size_t b = 0; b < blocks; ++b, x += kSignBlock) {
      LoopSignBits<L>(x, kSignBlock, bits + b * kSignBlock / 8);
      sums[b] = term == SignTerm::kMagnitude ? LoopSumAbs<L>(x, kSignBlock)
                                             : LoopSumSquares<L>(x, kSignBlock, 0);
    }
  }
}

}  // namespace longhaul
