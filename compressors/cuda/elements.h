#pragma once

#include "compressors/codec.h"
#include "compressors/cuda/team.h"

// A thread's eight neighbouring elements, between memory and registers.
namespace longhaul {

struct Eight {
  float x[kPerThread];
};

// The same as they lie in memory.
template <DType kType>
struct RawEight {
  static constexpr int kQuads = kType == DType::kF32 ? 2 : 1;
  Quad quad[kQuads];
};

// How many of the eight elements from `at` on are below `end`.
LONGHAUL_TEXT int CountBelow(uint64_t at, uint64_t end) {
  return at >= end ? 0 : end - at < kPerThread ? static_cast<int>(end - at) : kPerThread;
}

// True when `bytes` is a multiple of `alignment`, a power of two.
LONGHAUL_TEXT bool Aligned(const std::byte* p, uint64_t alignment) {
  return (reinterpret_cast<uint64_t>(p) & (alignment - 1)) == 0;
}

// p: eight elements, 16-byte aligned.
template <class Team, DType kType>
LONGHAUL_TEXT void LoadEight(const std::byte* p, RawEight<kType>& raw) {
  for (int i = 0; i < RawEight<kType>::kQuads; ++i) raw.quad[i] = Team::Load16(p + 16 * i);
}

// p: `count` elements, aligned as such; the others become 0.
template <class Team, DType kType>
LONGHAUL_TEXT void LoadSome(const std::byte* p, int count, RawEight<kType>& raw) {
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    if constexpr (kType == DType::kF32) {
      raw.quad[e / 4].word[e % 4] = e < count ? Team::template Load<uint32_t>(p + 4 * e) : 0;
    } else {
      const uint32_t half = e < count ? Team::template Load<uint16_t>(p + 2 * e) : 0u;
      uint32_t& word = raw.quad[0].word[e / 2];
      word = e % 2 == 0 ? half : word | half << 16;
    }
  }
}

// One element, widened.
template <class Team, DType kType>
LONGHAUL_TEXT float LoadOne(const std::byte* p) {
  if constexpr (kType == DType::kF32) {
    return FromBits(Team::template Load<uint32_t>(p));
  } else {
    const auto half = Team::template Load<uint16_t>(p);
    return kType == DType::kBF16 ? Bf16ToF32(half) : F16ToF32(half);
  }
}

template <DType kType>
LONGHAUL_TEXT void Widen(const RawEight<kType>& raw, Eight& v) {
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    if constexpr (kType == DType::kF32) {
      v.x[e] = FromBits(raw.quad[e / 4].word[e % 4]);
    } else {
      const uint32_t pair = raw.quad[0].word[e / 2];
      if constexpr (kType == DType::kBF16) {
        v.x[e] = FromBits(e % 2 == 0 ? pair << 16 : pair & 0xFFFF0000);
      } else {
        v.x[e] = F16ToF32(static_cast<uint16_t>(e % 2 == 0 ? pair & 0xFFFF : pair >> 16));
      }
    }
  }
}

// RNE; finite stays finite.
template <DType kType>
LONGHAUL_TEXT void Narrow(const Eight& v, RawEight<kType>& raw) {
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    if constexpr (kType == DType::kF32) {
      raw.quad[e / 4].word[e % 4] = BitsOf(v.x[e]);
    } else {
      const uint32_t half =
          kType == DType::kBF16 ? F32ToBf16Clamped(v.x[e]) : F32ToF16Clamped(v.x[e]);
      uint32_t& word = raw.quad[0].word[e / 2];
      word = e % 2 == 0 ? half : word | half << 16;
    }
  }
}

template <class Team, DType kType>
LONGHAUL_TEXT void StoreEight(const RawEight<kType>& raw, std::byte* p) {
  for (int i = 0; i < RawEight<kType>::kQuads; ++i) Team::Store16(raw.quad[i], p + 16 * i);
}

template <class Team, DType kType>
LONGHAUL_TEXT void StoreSome(const RawEight<kType>& raw, int count, std::byte* p) {
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    if (e >= count) continue;  // not break: the loop must unroll, or raw leaves the registers
    if constexpr (kType == DType::kF32) {
      Team::Store(raw.quad[e / 4].word[e % 4], p + 4 * e);
    } else {
      Team::Store(static_cast<uint16_t>(raw.quad[0].word[e / 2] >> (e % 2 * 16)), p + 2 * e);
    }
  }
}

// The largest |x| of eight, as bits: kInfBits and above where NaN or Inf is among them.
LONGHAUL_TEXT uint32_t MaxBits(const Eight& v) {
  uint32_t top = 0;
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    const uint32_t abs = BitsOf(v.x[e]) & kAbsMask;
    top = abs > top ? abs : top;
  }
  return top;
}

}  // namespace longhaul
