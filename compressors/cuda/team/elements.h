#pragma once

#include "compressors/codec.h"
#include "compressors/cuda/team/float_pairs.h"

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
