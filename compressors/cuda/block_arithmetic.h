#pragma once

#include "compressors/block_scheme.h"
#include "compressors/cuda/philox.h"

// What a thread does with its eight elements of a block: the arithmetic of block_reference.cc and
// stochastic.cc, operation by operation, so that all targets round alike.
namespace longhaul {

enum class Rounding : uint8_t { kNearest, kStochastic };

constexpr float kWidenE2m1 = 4.0f / 3.0f;  // of a stochastically rounded E2M1 scale

constexpr bool HasStochasticForm(BlockScheme s) { return !IsMini(s.grid) || s.grid == Grid::kE2M1; }

LONGHAUL_TEXT float ClampTo(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

// A small integer as a float without a conversion instruction: exact for code < 2^22.
LONGHAUL_TEXT float SmallToFloat(uint32_t code, int offset) {
  return FromBits(0x4B000000u | code) - (8388608.0f + static_cast<float>(offset));
}

// Stages h = 1, 2, 4 of the butterfly.
LONGHAUL_TEXT void HadamardInThread(Eight& v) {
  LONGHAUL_UNROLL
  for (int h = 1; h < kPerThread; h *= 2) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kPerThread; ++i) {
      if ((i & h) != 0) continue;
      const float a = v.x[i], b = v.x[i + h];
      v.x[i] = a + b;
      v.x[i + h] = a - b;
    }
  }
}

// Eight elements per thread, kSize / 8 neighbouring threads: x <- H x.
template <int kSize, class Team>
LONGHAUL_TEXT void HadamardSumsAcross(Team& team, typename Team::template Own<Eight>& v) {
  team.Each([&](int t) { HadamardInThread(v[t]); });
  LONGHAUL_UNROLL
  for (int mask = 1; mask < kSize / kPerThread; mask *= 2) {
    auto other = team.Xor(v, mask);
    team.Each([&](int t) {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        const float mine = v[t].x[e], theirs = other[t].x[e];
        v[t].x[e] = (t & mask) == 0 ? mine + theirs : theirs - mine;
      }
    });
  }
}

// x <- H x / sqrt(kSize).
template <int kSize, class Team>
LONGHAUL_TEXT void HadamardAcross(Team& team, typename Team::template Own<Eight>& v) {
  HadamardSumsAcross<kSize>(team, v);
  team.Each([&](int t) {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) v[t].x[e] *= HadamardNorm(kSize);
  });
}

// x with random signs; the words are those of purpose "sign flips".
LONGHAUL_TEXT void FlipSigns(uint64_t seed, uint64_t first, Eight& v) {
  uint32_t words[kPerThread];
  NoiseOfEight(seed, 2, first, words);
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) v.x[e] = FromBits(BitsOf(v.x[e]) ^ (words[e] & 0x80000000));
}

// A block's scale, zero point and whether they exist.
struct BlockScale {
  WireScale s;
  uint16_t wire_z;
  float z;
  BlockFault fault;
};

// top: the largest |x| as bits; low, high: least and largest x (affine grids).
template <BlockScheme kScheme>
LONGHAUL_TEXT BlockScale ScaleOf(uint32_t top, float low, float high) {
  BlockScale b = {{0, 0.0f, 0.0f}, 0, 0.0f, BlockFault::kNone};
  if (top >= kInfBits) {
    b.fault = BlockFault::kNotFinite;
    return b;
  }
  if constexpr (kScheme.grid == Grid::kAffine) {
    b.wire_z = AffineZero(low);
    b.z = Bf16ToF32(b.wire_z);
    if (AffineOverflows(low, high, b.z)) b.fault = BlockFault::kRange;
    b.s = AffineScale(b.z, high, Levels(kScheme));
  } else {
    b.s = AbsMaxScale(kScheme, top);
  }
  return b;
}

template <BlockScheme kScheme>
LONGHAUL_TEXT uint32_t NearestCode(float x, const BlockScale& b) {
  constexpr float kTop = TopValue(kScheme);
  if constexpr (IsMini(kScheme.grid)) {
    return b.s.value == 0 ? 0u : F32ToMini(x * b.s.inverse, MiniOf(kScheme.grid));
  } else if constexpr (kScheme.grid == Grid::kSymmetric) {
    return static_cast<uint32_t>(RoundToInt(ClampTo(x * b.s.inverse, -kTop, kTop)) +
                                 CodeOffset(kScheme));
  } else {
    return static_cast<uint32_t>(RoundToInt(ClampTo((x - b.z) * b.s.inverse, 0.0f, kTop)));
  }
}

// LoopNoisyCodes, LoopNoisySignedCodes, LoopNoisyE2m1Codes.
template <BlockScheme kScheme>
LONGHAUL_TEXT uint32_t NoisyCode(float x, float u, const BlockScale& b) {
  const float top = b.s.value == 0 ? 0.0f : TopValue(kScheme);
  if constexpr (kScheme.grid == Grid::kAffine) {
    return static_cast<uint32_t>(
        static_cast<int32_t>(ClampTo((x - b.z) * b.s.inverse + u, 0.0f, top)));
  } else if constexpr (kScheme.grid == Grid::kSymmetric) {
    const float in = ClampTo(x * b.s.inverse + u, -top, top);
    const auto cut = static_cast<int32_t>(in);
    const int32_t floor = cut - (static_cast<float>(cut) > in ? 1 : 0);
    return static_cast<uint32_t>(floor + CodeOffset(kScheme));
  } else {
    if (b.s.value == 0) return 0;
    const uint32_t bits = BitsOf(x * (1.0f / (b.s.value * kWidenE2m1)));
    const float abs = FromBits(bits & kAbsMask) < 6.0f ? FromBits(bits & kAbsMask) : 6.0f;
    const auto small = static_cast<uint32_t>(static_cast<int32_t>(abs * 2.0f + u));
    const auto noise = static_cast<uint32_t>(static_cast<int32_t>(u * 0x1p22f));
    const uint32_t large = ((BitsOf(abs) + noise) >> 22) - (126u << 1);
    const uint32_t code = abs < 1.0f ? small : large;
    return (code > 7 ? 7 : code) | (bits >> 31) << 3;
  }
}

// The codes of the first `count` elements, packed LSB first; `first` is x[0]'s element number.
template <BlockScheme kScheme, Rounding kRounding>
LONGHAUL_TEXT uint64_t PackEight(const Eight& v, int count, const BlockScale& b, uint64_t seed,
                                 uint64_t first) {
  uint32_t noise[kPerThread] = {};
  if constexpr (kRounding == Rounding::kStochastic) NoiseOfEight(seed, 0, first, noise);
  uint64_t codes = 0;
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) {
    uint32_t q;
    if constexpr (kRounding == Rounding::kStochastic) {
      q = NoisyCode<kScheme>(v.x[e], Uniform(noise[e]), b);
    } else {
      q = NearestCode<kScheme>(v.x[e], b);
    }
    codes |= static_cast<uint64_t>(e < count ? q : 0) << (kScheme.bits * e);
  }
  return codes;
}

// What a code of a rotated block counts, in steps of the scale or, E2M1, in halves of one: a whole
// number, never -0.
template <BlockScheme kScheme>
LONGHAUL_TEXT float StepsOf(uint32_t code) {
  if constexpr (IsMini(kScheme.grid)) {
    return MiniToF32(static_cast<uint8_t>(code), MiniOf(kScheme.grid)) * 2.0f + 0.0f;
  } else {
    return SmallToFloat(code, CodeOffset(kScheme));
  }
}

// A code's value; `bad` becomes true for a code that stands for no number.
template <BlockScheme kScheme>
LONGHAUL_TEXT float ValueOf(uint32_t code, float s, float z, bool& bad) {
  if constexpr (IsMini(kScheme.grid)) {
    constexpr MiniFormat kFormat = FormatOf(MiniOf(kScheme.grid));
    bad |= (code & ((1u << (kFormat.bits - 1)) - 1)) > kFormat.max_code;
    return MiniToF32(static_cast<uint8_t>(code), MiniOf(kScheme.grid)) * s;
  } else {
    const float step = SmallToFloat(code, CodeOffset(kScheme)) * s;
    return kScheme.grid == Grid::kSymmetric ? step : z + step;
  }
}

}  // namespace longhaul
