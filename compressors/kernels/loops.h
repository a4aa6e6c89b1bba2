#pragma once

#include "compressors/kernels/kernels.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/kernels/sum_loops.h"
#include "compressors/numbers/mini_floats.h"
#include "compressors/tensor.h"

// The loops of kernels.h. Each is a template on L, the lanes of the instruction set that the
// including file is compiled for, so no copy can reach another one; nothing here may call a
// function that is not inlined by force. The compiler vectorises the loops; what it does not find
// by itself is asked of L (lanes.h); lanes one wide have AtLeastMask and NotNegativeMask
// only.
namespace longhaul {

template <class L>
uint32_t LoopAbsMax(const float* x, size_t n) {
  uint32_t lane[32] = {};
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    typename L::U top[4] = {L::Zero(), L::Zero(), L::Zero(), L::Zero()};
    for (; i + 4 * L::kWidth <= n; i += 4 * L::kWidth) {
      for (size_t k = 0; k < 4; ++k) {
        const auto* at = reinterpret_cast<const std::byte*>(x + i + k * L::kWidth);
        if (k * L::kWidth % 16 == 0) PrefetchNextPage(at);
        top[k] = L::MaxBits(top[k], L::Abs(L::template Load<DType::kF32>(at)));
      }
    }
    lane[0] = L::MaxAcross(L::MaxBits(L::MaxBits(top[0], top[1]), L::MaxBits(top[2], top[3])));
  }
  for (; i + 32 <= n; i += 32) {
    for (size_t j = 0; j < 32; ++j) {
      const uint32_t abs = BitsOf(x[i + j]) & kAbsMask;
      lane[j] = abs > lane[j] ? abs : lane[j];
    }
  }
  uint32_t top = 0;
  for (; i < n; ++i) {
    const uint32_t abs = BitsOf(x[i]) & kAbsMask;
    top = abs > top ? abs : top;
  }
  for (size_t j = 0; j < 32; ++j) top = lane[j] > top ? lane[j] : top;
  return top;
}

template <class L>
void LoopRange(const float* x, size_t n, float* min, float* max) {
  float low[16], high[16];
  for (size_t j = 0; j < 16; ++j) low[j] = high[j] = x[0];
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (size_t j = 0; j < 16; ++j) {
      low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
      high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
    }
  }
  for (; i < n; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  for (size_t j = 1; j < 16; ++j) {
    low[0] = low[j] < low[0] ? low[j] : low[0];
    high[0] = high[j] > high[0] ? high[j] : high[0];
  }
  *min = low[0];
  *max = high[0];
}

// p log2 p for p in [0, 1]. log2 of the mantissa m in [1, 2) by the series of atanh at
// (m - 1) / (m + 1) <= 1/3, whose next term is below 2e-6.
LONGHAUL_INLINE float PLog2P(float p) {
  const uint32_t bits = BitsOf(p);
  const float m = FromBits((bits & 0x007FFFFF) | 0x3F800000);
  const float t = (m - 1.0f) / (m + 1.0f);
  const float t2 = t * t;
  float series = 1.0f / 9 * t2 + 1.0f / 7;
  series = series * t2 + 1.0f / 5;
  series = series * t2 + 1.0f / 3;
  series = series * t2 + 1.0f;
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127);
  const float log2 = series * t * 2.88539008f + exponent;
  return p < 0x1p-126f ? 0.0f : p * log2;
}

template <class L>
float LoopEntropy(const float* x, size_t n) {
  const float total = LoopSumAbs<L>(x, n) + 1e-30f;
  return -ChunkSum(
      n, [ x, total ](size_t i) __attribute__((always_inline)) {
        return PLog2P(FromBits(BitsOf(x[i]) & kAbsMask) / total);
      });
}

template <class L>
void LoopAffineCodes(const float* x, size_t n, float z, float inverse, float offset, float top,
                     uint8_t* q) {
  for (size_t i = 0; i < n; ++i) {
    const float at = (x[i] - z) * inverse + offset;
    const float low = at < 0 ? 0.0f : at;
    q[i] = static_cast<uint8_t>(RoundToInt(low > top ? top : low));
  }
}

template <class L>
void LoopStandardize(const float* x, size_t n, float z, float inverse, std::byte* y) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    for (; i + L::kWidth <= n; i += L::kWidth) {
      const auto* at = reinterpret_cast<const std::byte*>(x + i);
      if (i % 16 == 0) PrefetchBehind(at, 4 * kSumChunk);
      const typename L::F off = L::Sub(L::template Load<DType::kF32>(at), L::Splat(z));
      L::template Store<DType::kF16>(L::Mul(off, L::Splat(inverse)), y + 2 * i);
    }
  }
  for (; i < n; ++i) {
    const uint16_t half = F32ToF16Clamped((x[i] - z) * inverse);
    __builtin_memcpy(y + 2 * i, &half, 2);
  }
}

template <class L>
bool LoopRestore(const std::byte* y, size_t n, float z, float s, float* x) {
  size_t i = 0;
  uint32_t top = 0;
  if constexpr (L::kWidth > 1) {
    typename L::U tops = L::Zero();
    for (; i + L::kWidth <= n; i += L::kWidth) {
      const typename L::F v = L::template Load<DType::kF16>(y + 2 * i);
      tops = L::MaxBits(tops, L::Abs(v));
      L::template Store<DType::kF32>(L::Add(L::Splat(z), L::Mul(v, L::Splat(s))),
                                     reinterpret_cast<std::byte*>(x + i));
    }
    top = L::MaxAcross(tops);
  }
  for (; i < n; ++i) {
    uint16_t half;
    __builtin_memcpy(&half, y + 2 * i, 2);
    const float v = F16ToF32(half);
    top = (BitsOf(v) & kAbsMask) > top ? BitsOf(v) & kAbsMask : top;
    const float step = v * s;
    x[i] = z + step;
  }
  return top < kInfBits;
}

template <class L>
void LoopAffineValues(const uint8_t* q, size_t n, float z, float s, float* x) {
  for (size_t i = 0; i < n; ++i) {
    const float step = static_cast<float>(static_cast<int32_t>(q[i])) * s;
    x[i] = z + step;
  }
}

template <class L, MiniFloat kType>
void LoopMiniCodes(const float* x, size_t n, float inverse, uint8_t* q) {
  for (size_t i = 0; i < n; ++i) q[i] = F32ToMini(x[i] * inverse, kType);
}

template <class L, MiniFloat kType>
void LoopMiniValues(const uint8_t* q, size_t n, float s, float* x) {
  for (size_t i = 0; i < n; ++i) x[i] = MiniToF32(q[i], kType) * s;
}

template <class L>
void LoopStream(const std::byte* from, size_t bytes, std::byte* to) {
  if constexpr (L::kWidth > 1) {
    constexpr size_t kLine = 64;
    const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
    if (head + kLine <= bytes) {
      __builtin_memcpy(to, from, head);
      size_t i = head;
      for (; i + kLine <= bytes; i += kLine) L::StreamLine(from + i, to + i);
      from += i;
      to += i;
      bytes -= i;
    }
  }
  __builtin_memcpy(to, from, bytes);
}

}  // namespace longhaul
