#pragma once

#include <cmath>

#include "compressors/codec.h"
#include "compressors/cuda/team/team.h"
#include "compressors/numbers/mini_floats.h"

// A thread's eight neighbouring elements, between memory and registers.
namespace longhaul {

// Two 16-bit floats in a word, the lower element in the lower half: in one instruction on a GPU,
// by the conversions of small_floats.h elsewhere. Alike for all numbers; where NaN comes in, a NaN
// comes out, perhaps another one (a tensor or frame that holds one is refused).

// RNE; finite stays finite.
template <DType kType>
LONGHAUL_TEXT uint32_t NarrowPair(float low, float high) {
  static_assert(kType != DType::kF32);
#ifdef __CUDA_ARCH__
  uint32_t pair;
  if constexpr (kType == DType::kBF16) {
    asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  const auto narrow = [](float x) -> uint32_t {
    return kType == DType::kBF16 ? F32ToBf16Clamped(x) : F32ToF16Clamped(x);
  };
  return narrow(low) | narrow(high) << 16;
#endif
}

// Exact.
template <DType kType>
LONGHAUL_TEXT void WidenPair(uint32_t pair, float& low, float& high) {
  static_assert(kType != DType::kF32);
  if constexpr (kType == DType::kBF16) {
    low = FromBits(pair << 16);
    high = FromBits(pair & 0xFFFF0000);
  } else {
#ifdef __CUDA_ARCH__
    asm("{\n\t.reg .b16 l, h;\n\t"
        "mov.b32 {l, h}, %2;\n\t"
        "cvt.f32.f16 %0, l;\n\t"
        "cvt.f32.f16 %1, h;\n\t}"
        : "=f"(low), "=f"(high)
        : "r"(pair));
#else
    low = F16ToF32(static_cast<uint16_t>(pair));
    high = F16ToF32(static_cast<uint16_t>(pair >> 16));
#endif
  }
}

// Bits of a 16-bit float without its sign -> those of the same number in fp32; at or above kInfBits
// where it is Inf or NaN.
template <DType kType>
LONGHAUL_TEXT uint32_t WidenAbsBits(uint32_t half) {
  float low, high;
  WidenPair<kType>(half, low, high);
  return BitsOf(low);
}

// The larger of each half, as whole numbers.
LONGHAUL_TEXT uint32_t MaxOfHalves(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  return __vmaxu2(a, b);
#else
  const uint32_t low_a = a & 0xFFFF, low_b = b & 0xFFFF, high_a = a >> 16, high_b = b >> 16;
  return (low_a > low_b ? low_a : low_b) | (high_a > high_b ? high_a : high_b) << 16;
#endif
}

// a + b rounded down.
LONGHAUL_TEXT float SumBelow(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rd(a, b);
#else
  const double exact = static_cast<double>(a) + b;  // of what is added here
  const float sum = static_cast<float>(exact);
  return sum > exact ? nextafterf(sum, -1e38f) : sum;
#endif
}

// The smaller and the larger of two numbers; NaN where one is. Of zeros either.
LONGHAUL_TEXT float Least(float a, float b) {
#ifdef __CUDA_ARCH__
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
#else
  return a != a || a < b ? a : b;
#endif
}
LONGHAUL_TEXT float Largest(float a, float b) {
#ifdef __CUDA_ARCH__
  float largest;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(a), "f"(b));
  return largest;
#else
  return a != a || a > b ? a : b;
#endif
}

// The same of each half.
template <DType kType>
LONGHAUL_TEXT uint32_t LeastPair(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint32_t least;
  if constexpr (kType == DType::kBF16) {
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
  } else {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(least) : "r"(a), "r"(b));
  }
  return least;
#else
  float low_a, high_a, low_b, high_b;
  WidenPair<kType>(a, low_a, high_a);
  WidenPair<kType>(b, low_b, high_b);
  return ((low_a != low_a || low_a < low_b ? a : b) & 0xFFFF) |
         ((high_a != high_a || high_a < high_b ? a : b) & 0xFFFF0000);
#endif
}
template <DType kType>
LONGHAUL_TEXT uint32_t LargestPair(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint32_t largest;
  if constexpr (kType == DType::kBF16) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(largest) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(largest) : "r"(a), "r"(b));
  }
  return largest;
#else
  float low_a, high_a, low_b, high_b;
  WidenPair<kType>(a, low_a, high_a);
  WidenPair<kType>(b, low_b, high_b);
  return ((low_a != low_a || low_a > low_b ? a : b) & 0xFFFF) |
         ((high_a != high_a || high_a > high_b ? a : b) & 0xFFFF0000);
#endif
}

// Two numbers -> two floats of eight bits, E4M3 or E5M2: RNE, saturating (mini_floats.h); Hopper
// and later have an instruction. Not for NaN.
template <MiniFloat kTo>
LONGHAUL_TEXT uint32_t MiniPair(float low, float high) {
  static_assert(kTo == MiniFloat::kE4M3 || kTo == MiniFloat::kE5M2);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint16_t pair;
  if constexpr (kTo == MiniFloat::kE4M3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return F32ToMini(low, kTo) | static_cast<uint32_t>(F32ToMini(high, kTo)) << 8;
#endif
}

// The inverse, exact; of codes that stand for no number anything.
template <MiniFloat kFrom>
LONGHAUL_TEXT void WidenMiniPair(uint32_t pair, float& low, float& high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  if constexpr (kFrom == MiniFloat::kE4M3) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  }
  WidenPair<DType::kF16>(halves, low, high);
#else
  low = MiniToF32(static_cast<uint8_t>(pair), kFrom);
  high = MiniToF32(static_cast<uint8_t>(pair >> 8), kFrom);
#endif
}

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

template <DType kType>
LONGHAUL_TEXT void Widen(const RawEight<kType>& raw, Eight& v) {
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; e += 2) {
    if constexpr (kType == DType::kF32) {
      v.x[e] = FromBits(raw.quad[e / 4].word[e % 4]);
      v.x[e + 1] = FromBits(raw.quad[e / 4].word[e % 4 + 1]);
    } else {
      WidenPair<kType>(raw.quad[0].word[e / 2], v.x[e], v.x[e + 1]);
    }
  }
}

// RNE; finite stays finite.
template <DType kType>
LONGHAUL_TEXT void Narrow(const Eight& v, RawEight<kType>& raw) {
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; e += 2) {
    if constexpr (kType == DType::kF32) {
      raw.quad[e / 4].word[e % 4] = BitsOf(v.x[e]);
      raw.quad[e / 4].word[e % 4 + 1] = BitsOf(v.x[e + 1]);
    } else {
      raw.quad[0].word[e / 2] = NarrowPair<kType>(v.x[e], v.x[e + 1]);
    }
  }
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

// Word by word: what is chosen by an address leaves the registers.
LONGHAUL_TEXT Quad Choose(bool first, const Quad& a, const Quad& b) {
  Quad chosen;
  LONGHAUL_UNROLL
  for (int w = 0; w < 4; ++w) chosen.word[w] = first ? a.word[w] : b.word[w];
  return chosen;
}

// A strip of the team, `raw` of thread t to p + t times eight elements; p 16-byte aligned. Of fp32
// every store instruction writes whole sectors of 32 bytes: neighbours exchange halves.
template <DType kType, class Team, class Raw>
LONGHAUL_TEXT void StoreStrip(Team& team, const Raw& raw, std::byte* p) {
  if constexpr (kType == DType::kF32) {
    typename Team::template Own<Quad> sent;
    team.Each([&](int t) { sent[t] = Choose(t % 2 == 0, raw[t].quad[1], raw[t].quad[0]); });
    const auto got = team.Xor(sent, 1);
    team.Each([&](int t) {
      std::byte* pair = p + (t & ~1) * 32 + (t & 1) * 16;  // two threads' 64 bytes
      Team::Store16(Choose(t % 2 == 0, raw[t].quad[0], got[t]), pair);
      Team::Store16(Choose(t % 2 == 0, got[t], raw[t].quad[1]), pair + 32);
    });
  } else {
    team.Each([&](int t) { Team::Store16(raw[t].quad[0], p + 16 * t); });
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

// The same before they are widened.
template <DType kType>
LONGHAUL_TEXT uint32_t MaxBits(const RawEight<kType>& raw) {
  if constexpr (kType == DType::kF32) {
    Eight v;
    Widen<kType>(raw, v);
    return MaxBits(v);
  } else {
    constexpr uint32_t kNoSigns = 0x7FFF7FFF;
    uint32_t pair = raw.quad[0].word[0] & kNoSigns;
    LONGHAUL_UNROLL
    for (int w = 1; w < 4; ++w) pair = MaxOfHalves(pair, raw.quad[0].word[w] & kNoSigns);
    const uint32_t low = pair & 0xFFFF, high = pair >> 16;
    return WidenAbsBits<kType>(low > high ? low : high);
  }
}

}  // namespace longhaul
