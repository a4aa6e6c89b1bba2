#pragma once

#include "compressors/kernels/loops.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/tensor.h"

// ggml's full blocks of 32 (families/ggml_block.cc), compiled per instruction set as loops.h says.
namespace longhaul {

// 1/d as ggml has it, and 0 where that would be Inf: its fp16 scale is 0 there.
LONGHAUL_INLINE float GgmlInverse(float d) {
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  return (BitsOf(inverse) & kAbsMask) >= kInfBits ? 0.0f : inverse;
}

// Round half away from zero, |x| < 2^31, exact.
LONGHAUL_INLINE int32_t RoundAway(float x) {
  const auto whole = static_cast<int32_t>(x);
  const float rest = x - static_cast<float>(whole);
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

// min(15, int(x inverse + 8.5)), every step rounded to fp32 as in the gguf package.
LONGHAUL_INLINE int32_t Q4Code(float x, float inverse) {
  const auto code = static_cast<int32_t>(x * inverse + 8.5f);
  return code > 15 ? 15 : code;
}

// fp16 of d is not finite; ggml_block.cc tells NaN and Inf from large numbers.
LONGHAUL_INLINE bool BeyondFp16(float d) { return (BitsOf(d) & kAbsMask) >= BitsOf(65520.0f); }

// As GgmlInverse, lane by lane.
template <class L>
LONGHAUL_INLINE typename L::F GgmlInverses(typename L::F d) {
  const typename L::U inverse = L::Bits(L::Div(L::Splat(1.0f), d));
  const typename L::U size = L::Abs(L::FromBits(inverse));
  return L::FromBits(L::SubBits(inverse, L::KeepAtLeast(inverse, size, kInfBits)));
}

// top[b]: the largest |x| of block b of L::kWidth, lane by lane.
template <class L>
LONGHAUL_INLINE void GgmlTops(const std::byte* x, typename L::U* top) {
  constexpr size_t w = L::kWidth;
  for (size_t b = 0; b < w; ++b) {
    top[b] = L::Abs(L::template Load<DType::kF32>(x + 128 * b));
    for (size_t i = 1; i < 32 / w; ++i) {
      top[b] = L::MaxBits(top[b], L::Abs(L::template Load<DType::kF32>(x + 128 * b + 4 * w * i)));
    }
  }
}

// L::kWidth blocks at once: their scales fill one vector. False when one is beyond fp16.
template <class L>
LONGHAUL_INLINE bool EncodeQ8Batch(const float* x, std::byte* out) {
  using F = typename L::F;
  using U = typename L::U;
  constexpr size_t w = L::kWidth, n = 32 / w;
  const auto* bytes = reinterpret_cast<const std::byte*>(x);
  U top[w];
  GgmlTops<L>(bytes, top);
  const F d = L::Div(L::FromBits(L::AcrossMaxBits(top)), L::Splat(127.0f));
  if (L::MaxAcross(L::Bits(d)) >= BitsOf(65520.0f)) return false;
  alignas(64) std::byte wire[2 * w], inverse[4 * w];
  L::template Store<DType::kF16>(d, wire);
  L::template Store<DType::kF32>(GgmlInverses<L>(d), inverse);
  for (size_t b = 0; b < w; ++b, out += 34) {
    float scale;
    __builtin_memcpy(&scale, inverse + 4 * b, 4);
    const F by = L::Splat(scale);
    PrefetchLines(bytes + 128 * b + kFetchAhead, 128);
    U q[n];
    for (size_t i = 0; i < n; ++i) {
      // Half away from zero: the sum with the float below 0.5 reaches the next integer from 0.5 on.
      const F v = L::Mul(L::template Load<DType::kF32>(bytes + 128 * b + 4 * w * i), by);
      const U half = L::Or(L::And(L::Bits(v), L::SplatBits(0x80000000)), L::SplatBits(0x3EFFFFFF));
      q[i] = L::Truncate(L::Add(v, L::FromBits(half)));
    }
    __builtin_memcpy(out, wire + 2 * b, 2);
    L::StoreSigned32(q, out + 2);
  }
  return true;
}

template <class L>
LONGHAUL_INLINE bool EncodeQ4Batch(const float* x, std::byte* out) {
  using F = typename L::F;
  using U = typename L::U;
  constexpr size_t w = L::kWidth, n = 32 / w;
  const auto* bytes = reinterpret_cast<const std::byte*>(x);
  U top[w];
  GgmlTops<L>(bytes, top);
  alignas(64) uint32_t largest[w];  // with its sign: that of the first element so large
  const U max_bits = L::AcrossMaxBits(top);
  L::template Store<DType::kF32>(L::FromBits(max_bits), reinterpret_cast<std::byte*>(largest));
  for (size_t b = 0; b < w; ++b) {
    uint32_t mask = 0;
    for (size_t i = 0; i < n; ++i) mask |= L::AtLeastMask(x + 32 * b + w * i, largest[b]) << w * i;
    const uint32_t sign = BitsOf(x[32 * b + static_cast<size_t>(__builtin_ctz(mask))]) & ~kAbsMask;
    largest[b] |= largest[b] == 0 ? 0 : sign;
  }
  const F m = L::template Load<DType::kF32>(reinterpret_cast<const std::byte*>(largest));
  const F d = L::Div(m, L::Splat(-8.0f));
  if (L::MaxAcross(L::Abs(d)) >= BitsOf(65520.0f)) return false;
  alignas(64) std::byte wire[2 * w], inverse[4 * w];
  L::template Store<DType::kF16>(d, wire);
  L::template Store<DType::kF32>(GgmlInverses<L>(d), inverse);
  for (size_t b = 0; b < w; ++b, out += 18) {
    float scale;
    __builtin_memcpy(&scale, inverse + 4 * b, 4);
    PrefetchLines(bytes + 128 * b + kFetchAhead, 128);
    U q[n];
    for (size_t i = 0; i < n; ++i) {
      const F v = L::template Load<DType::kF32>(bytes + 128 * b + 4 * w * i);
      q[i] = L::Truncate(L::Add(L::Mul(v, L::Splat(scale)), L::Splat(8.5f)));
    }
    __builtin_memcpy(out, wire + 2 * b, 2);
    L::StoreHalvesOf32(q, out + 2);
  }
  return true;
}

template <class L>
bool LoopEncodeQ8(const float* x, size_t blocks, std::byte* out) {
  if constexpr (L::kWidth > 1) {
    for (; blocks >= L::kWidth; blocks -= L::kWidth) {
      if (!EncodeQ8Batch<L>(x, out)) return false;
      x += 32 * L::kWidth;
      out += 34 * L::kWidth;
    }
  }
  for (size_t b = 0; b < blocks; ++b, x += 32, out += 34) {
    uint32_t top[8] = {};
    for (size_t i = 0; i < 32; i += 8) {
      for (size_t j = 0; j < 8; ++j) {
        const uint32_t abs = BitsOf(x[i + j]) & kAbsMask;
        top[j] = abs > top[j] ? abs : top[j];
      }
    }
    for (size_t h = 4; h > 0; h /= 2) {
      for (size_t j = 0; j < h; ++j) top[j] = top[j] > top[j + h] ? top[j] : top[j + h];
    }
    const float d = FromBits(top[0]) / 127.0f;
    if (BeyondFp16(d)) return false;
    const float inverse = GgmlInverse(d);
    const uint16_t wire = F32ToF16Clamped(d);
    __builtin_memcpy(out, &wire, 2);
    int8_t q[32];
    for (size_t i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(RoundAway(x[i] * inverse));
    __builtin_memcpy(out + 2, q, 32);
  }
  return true;
}

template <class L>
bool LoopEncodeQ4(const float* x, size_t blocks, std::byte* out) {
  if constexpr (L::kWidth > 1) {
    for (; blocks >= L::kWidth; blocks -= L::kWidth) {
      if (!EncodeQ4Batch<L>(x, out)) return false;
      x += 32 * L::kWidth;
      out += 18 * L::kWidth;
    }
  }
  for (size_t b = 0; b < blocks; ++b, x += 32, out += 18) {
    float m = 0;  // the signed element of largest magnitude, the first on ties
    for (size_t i = 0; i < 32; ++i) {
      m = (BitsOf(x[i]) & kAbsMask) > (BitsOf(m) & kAbsMask) ? x[i] : m;
    }
    const float d = m / -8.0f;
    if (BeyondFp16(d)) return false;
    const float inverse = GgmlInverse(d);
    const uint16_t wire = F32ToF16Clamped(d);
    __builtin_memcpy(out, &wire, 2);
    uint8_t q[16];
    for (size_t j = 0; j < 16; ++j) {
      q[j] = static_cast<uint8_t>(Q4Code(x[j], inverse) | Q4Code(x[j + 16], inverse) << 4);
    }
    __builtin_memcpy(out + 2, q, 16);
  }
  return true;
}

template <class L>
bool LoopDecodeQ8(const std::byte* in, size_t blocks, float* x) {
  for (size_t b = 0; b < blocks; ++b, x += 32, in += 34) {
    uint16_t wire;
    __builtin_memcpy(&wire, in, 2);
    if ((wire & 0x7C00) == 0x7C00) return false;
    if constexpr (L::kWidth > 1) {
      const typename L::F d = L::SplatHalf(wire);
      for (size_t i = 0; i < 32; i += L::kWidth) {
        L::template Store<DType::kF32>(L::Mul(L::ToFloat(L::LoadSigned(in + 2 + i), 0), d),
                                       reinterpret_cast<std::byte*>(x + i));
      }
    } else {
      const float d = F16ToF32(wire);
      int8_t q[32];
      __builtin_memcpy(q, in + 2, 32);
      for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(static_cast<int32_t>(q[i])) * d;
    }
  }
  return true;
}

template <class L>
bool LoopDecodeQ4(const std::byte* in, size_t blocks, float* x) {
  for (size_t b = 0; b < blocks; ++b, x += 32, in += 18) {
    uint16_t wire;
    __builtin_memcpy(&wire, in, 2);
    if ((wire & 0x7C00) == 0x7C00) return false;
    if constexpr (L::kWidth > 1) {
      const typename L::F d = L::SplatHalf(wire);
      for (size_t j = 0; j < 16; j += L::kWidth) {
        const typename L::U q = L::LoadUnsigned(in + 2 + j);
        const typename L::U low = L::And(q, L::SplatBits(15)), high = L::template ShiftRight<4>(q);
        L::template Store<DType::kF32>(L::Mul(L::ToFloat(low, 8), d),
                                       reinterpret_cast<std::byte*>(x + j));
        L::template Store<DType::kF32>(L::Mul(L::ToFloat(high, 8), d),
                                       reinterpret_cast<std::byte*>(x + j + 16));
      }
      continue;
    }
    const float d = F16ToF32(wire);
    uint8_t q[16];
    __builtin_memcpy(q, in + 2, 16);
    for (size_t j = 0; j < 16; ++j) {
      x[j] = static_cast<float>(static_cast<int32_t>(q[j] & 15) - 8) * d;
      x[j + 16] = static_cast<float>(static_cast<int32_t>(q[j] >> 4) - 8) * d;
    }
  }
  return true;
}

}  // namespace longhaul
