#pragma once

#include "compressors/kernels/kernels.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/kernels/sum_loops.h"

// Signs as bits, with sums beside them, and back: loops of kernels.h, as loops.h says.
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

template <class L>
void LoopSignBlocks(const float* x, size_t blocks, std::byte* bits, float* sums) {
  static_assert(kSignBlock % kSumLanes == 0);
  for (size_t b = 0; b < blocks; ++b, x += kSignBlock, bits += kSignBlock / 8) {
    if constexpr (L::kWidth == 1) {
      LoopSignBits<L>(x, kSignBlock, bits);
      sums[b] = LoopSumAbs<L>(x, kSignBlock);
    } else {
      RunningLanes<L> lanes;
      for (size_t i = 0; i < kSignBlock; i += kSumLanes) {
        uint32_t word = 0;
        for (size_t k = 0; k < kSumLanes / L::kWidth; ++k) {
          const float* from = x + i + k * L::kWidth;
          if (k * L::kWidth % 16 == 0) PrefetchNextPage(from);
          word |= L::NotNegativeMask(from) << k * L::kWidth;
          lanes.Add(k, AbsTerm().template Of<L>(L::template Load<DType::kF32>(
                           reinterpret_cast<const std::byte*>(from))));
        }
        __builtin_memcpy(bits + i / 8, &word, sizeof(word));
      }
      sums[b] = lanes.Total();
    }
  }
}

}  // namespace longhaul
