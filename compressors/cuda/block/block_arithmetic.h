#pragma once

#include <cmath>

#include "compressors/cuda/team/elements.h"
#include "compressors/kernels/block_scheme.h"

// What a thread does with its eight elements of a block: the arithmetic of block_reference.cc and
// stochastic.cc, operation by operation, so that all targets round alike.
namespace longhaul {

// noise.h's draws for a thread's eight elements.

struct NoiseWords {
  uint32_t word[4];
};

// All 64 bits of a product. nvcc makes an addition of zero besides when it has to find that out.
LONGHAUL_TEXT uint64_t WideProduct(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return uint64_t{a} * b;
#endif
}

// Philox4x32-10 at counter (quad, purpose, 0).
LONGHAUL_TEXT NoiseWords NoiseQuad(uint64_t key, uint32_t purpose, uint64_t quad) {
  uint32_t c0 = static_cast<uint32_t>(quad), c1 = static_cast<uint32_t>(quad >> 32);
  uint32_t c2 = purpose, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  LONGHAUL_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = WideProduct(0xD2511F53, c0), p1 = WideProduct(0xCD9E8D57, c2);
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

LONGHAUL_TEXT uint32_t Choose(const NoiseWords& words, int i) {
  const uint32_t low = (i & 1) != 0 ? words.word[1] : words.word[0];
  const uint32_t high = (i & 1) != 0 ? words.word[3] : words.word[2];
  return (i & 2) != 0 ? high : low;
}

// The words of elements first .. first + 7. Where `first` is no multiple of four (rows of an odd
// length), three counters serve the eight.
LONGHAUL_TEXT void NoiseOfEight(uint64_t key, uint32_t purpose, uint64_t first,
                                uint32_t (&words)[kPerThread]) {
  const NoiseWords a = NoiseQuad(key, purpose, first / 4);
  const NoiseWords b = NoiseQuad(key, purpose, first / 4 + 1);
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread; ++e) words[e] = e < 4 ? a.word[e] : b.word[e - 4];
  const auto skip = static_cast<int>(first % 4);
  if (skip == 0) return;
  const NoiseWords c = NoiseQuad(key, purpose, first / 4 + 2);
  uint32_t more[kPerThread + 4];
  LONGHAUL_UNROLL
  for (int e = 0; e < kPerThread + 4; ++e) more[e] = e < kPerThread ? words[e] : c.word[e - 8];
  LONGHAUL_UNROLL  // constant indices alone: what is indexed otherwise leaves the registers
      for (int e = 0; e < kPerThread; ++e) {
    words[e] = skip == 1 ? more[e + 1] : skip == 2 ? more[e + 2] : more[e + 3];
  }
}

// A word as a uniform draw in [0, 1) with 24 bits.
LONGHAUL_TEXT float Uniform(uint32_t word) {
  return static_cast<float>(word & 0xFFFFFF00) * 0x1p-32f;
}

enum class Rounding : uint8_t { kNearest, kStochastic };

constexpr float kWidenE2m1 = 4.0f / 3.0f;  // of a stochastically rounded E2M1 scale

constexpr bool HasStochasticForm(BlockScheme s) { return !IsMini(s.grid) || s.grid == Grid::kE2M1; }

// Of zeros either.
LONGHAUL_TEXT float ClampTo(float x, float low, float high) {
#ifdef __CUDA_ARCH__
  return fminf(fmaxf(x, low), high);
#else
  return x < low ? low : x > high ? high : x;
#endif
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
      // theirs + mine or theirs - mine in one instruction: the product is exact.
      const float sign = (t & mask) == 0 ? 1.0f : -1.0f;
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) v[t].x[e] = fmaf(sign, v[t].x[e], other[t].x[e]);
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

// A block's scale and zero point as they stand on the wire, whether they exist, and what makes
// codes of elements.
struct BlockScale {
  uint16_t wire, wire_z;
  BlockFault fault;
  float inverse;  // of what the codes count; 0: all codes are 0
  float z;
};

// top: the largest |x| as bits, of all grids but affine ones.
template <BlockScheme kScheme, Rounding kRounding>
LONGHAUL_TEXT BlockScale ScaleOf(uint32_t top) {
  if (top >= kInfBits) return {0, 0, BlockFault::kNotFinite, 0.0f, 0.0f};
  const WireScale s = AbsMaxScale(kScheme, top);
  float inverse = s.inverse;
  if constexpr (kRounding == Rounding::kStochastic && kScheme.grid == Grid::kE2M1) {
    inverse = s.value == 0 ? 0.0f : 1.0f / (s.value * kWidenE2m1);
  }
  return {s.wire, 0, BlockFault::kNone, inverse, 0.0f};
}
// The same of an affine grid; low, high: least and largest x, NaN where one is.
template <BlockScheme kScheme>
LONGHAUL_TEXT BlockScale ScaleOf(float low, float high) {
  if (low - low != 0 || high - high != 0) return {0, 0, BlockFault::kNotFinite, 0.0f, 0.0f};
  const uint16_t wire_z = AffineZero(low);
  const float z = Bf16ToF32(wire_z);
  const bool overflows = AffineOverflows(low, high, z);
  const WireScale s = AffineScale(z, high, Levels(kScheme));
  return {s.wire, wire_z, overflows ? BlockFault::kRange : BlockFault::kNone, s.inverse, z};
}

// What is added to an integer grid's number so that its lowest bits are the code: RNE, as
// RoundToInt has it.
template <BlockScheme kScheme>
constexpr float kCodeMagic = 0x1.8p23f + static_cast<float>(CodeOffset(kScheme));
constexpr uint32_t kMagicBits = 0x4B400000;  // of 0x1.8p23f

// kMagicBits + the code of the nearest number of the grid.
template <BlockScheme kScheme>
LONGHAUL_TEXT uint32_t NearestBits(float x, const BlockScale& b) {
  constexpr float kTop = TopValue(kScheme);
  const float in = kScheme.grid == Grid::kSymmetric ? ClampTo(x * b.inverse, -kTop, kTop)
                                                    : ClampTo((x - b.z) * b.inverse, 0.0f, kTop);
  return BitsOf(in + kCodeMagic<kScheme>);
}

// kMagicBits + the whole number below x, |x| < 2^22, without a conversion instruction.
LONGHAUL_TEXT uint32_t FloorBits(float x) { return BitsOf(SumBelow(x, 0x1.8p23f)); }

// kMagicBits + the code of the number below: LoopNoisyCodes, LoopNoisySignedCodes. Where all codes
// are 0, inverse is 0 and the noise below 1. word: the noise.
template <BlockScheme kScheme>
LONGHAUL_TEXT uint32_t NoisyBits(float x, uint32_t word, const BlockScale& b) {
  constexpr float kTop = TopValue(kScheme);
  const float u = Uniform(word);
  const float in = kScheme.grid == Grid::kSymmetric
                       ? ClampTo(x * b.inverse + u, -kTop, kTop)
                       : ClampTo((x - b.z) * b.inverse + u, 0.0f, kTop);
  return FloorBits(in) + static_cast<uint32_t>(CodeOffset(kScheme));
}

// kE2m1Bits + E2M1's code of x without its sign, as F32ToMini has it (equal for every fp32). What
// is added has a last bit that is worth half of x's power of two, from 1 on, so the sum counts such
// halves; below 1 it counts halves of 1, which are E2M1's subnormal codes.
constexpr uint32_t kE2m1Bits = (22u << 23) + (127u << 1);
LONGHAUL_TEXT uint32_t E2m1Bits(float x) {
  const float abs = fminf(fabsf(x), 6.0f);
  const uint32_t power = BitsOf(fmaxf(abs, 1.0f)) >> 23;
  const float sum = abs + FromBits((power << 23) + (22u << 23));
  return BitsOf(sum) - power * ((1u << 23) - 2);
}
// kE2m1Bits + LoopNoisyE2m1Codes' code of x, scaled, without its sign.
LONGHAUL_TEXT uint32_t NoisyE2m1Bits(float x, uint32_t word) {
  const float abs = fminf(fabsf(x), 6.0f);
  const uint32_t small = FloorBits(abs * 2.0f + Uniform(word)) - kMagicBits;
  const uint32_t large = ((BitsOf(abs) + (word >> 10)) >> 22) - (126u << 1);
  const uint32_t code = abs < 1.0f ? small : large;
  return (code > 7 ? 7 : code) + kE2m1Bits;
}

// What a grid's codes are a sum with, and the sum, of one element; word: noise.
template <BlockScheme kScheme>
constexpr uint32_t kBias = kScheme.grid == Grid::kE2M1   ? kE2m1Bits
                           : kScheme.grid == Grid::kE3M0 ? 0
                                                         : kMagicBits;
template <BlockScheme kScheme, Rounding kRounding>
LONGHAUL_TEXT uint32_t BiasedCode(float x, uint32_t word, const BlockScale& b) {
  constexpr bool kNoisy = kRounding == Rounding::kStochastic;
  if constexpr (kScheme.grid == Grid::kE2M1) {
    const float scaled = x * b.inverse;
    const uint32_t code = kNoisy ? NoisyE2m1Bits(scaled, word) : E2m1Bits(scaled);
    return code + (BitsOf(scaled) >> 31 << 3);
  } else if constexpr (kScheme.grid == Grid::kE3M0) {
    return F32ToMini(x * b.inverse, MiniFloat::kE3M0);
  } else {
    return kNoisy ? NoisyBits<kScheme>(x, word, b) : NearestBits<kScheme>(x, b);
  }
}

// The codes of kMany elements from v[from] on, packed LSB first into a word; those beyond `count`
// are 0.
template <BlockScheme kScheme, Rounding kRounding, int kMany>
LONGHAUL_TEXT uint32_t PackWord(const Eight& v, int from, int count, const BlockScale& b,
                                const uint32_t (&noise)[kPerThread]) {
  uint32_t word = 0, biases = 0;
  LONGHAUL_UNROLL
  for (int i = 0; i < kMany; ++i) {
    const uint32_t code = BiasedCode<kScheme, kRounding>(v.x[from + i], noise[from + i], b);
    word += (from + i < count ? code : kBias<kScheme>) << (kScheme.bits * i);
    biases += kBias<kScheme> << (kScheme.bits * i);  // a constant
  }
  // On a grid of whole numbers an empty block's codes are as they should be.
  return IsMini(kScheme.grid) && b.inverse == 0 ? 0 : word - biases;
}

// The codes of the first `count` elements, packed LSB first; `first` is x[0]'s element number.
template <BlockScheme kScheme, Rounding kRounding>
LONGHAUL_TEXT uint64_t PackEight(const Eight& v, int count, const BlockScale& b, uint64_t seed,
                                 uint64_t first) {
  uint32_t noise[kPerThread] = {};
  if constexpr (kRounding == Rounding::kStochastic) NoiseOfEight(seed, 0, first, noise);
  if constexpr (kScheme.grid == Grid::kE4M3 || kScheme.grid == Grid::kE5M2) {
    uint64_t codes = 0;
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; e += 2) {
      const auto pair = MiniPair<MiniOf(kScheme.grid)>(v.x[e] * b.inverse, v.x[e + 1] * b.inverse);
      codes |= static_cast<uint64_t>(pair) << (8 * e);
    }
    if (b.inverse == 0) return 0;
    return count < kPerThread ? codes & ((uint64_t{1} << (8 * count)) - 1) : codes;
  } else if constexpr (kScheme.bits <= 4) {
    return PackWord<kScheme, kRounding, kPerThread>(v, 0, count, b, noise);
  } else {
    constexpr int kHalf = kPerThread / 2;
    const uint64_t low = PackWord<kScheme, kRounding, kHalf>(v, 0, count, b, noise);
    const uint64_t high = PackWord<kScheme, kRounding, kHalf>(v, kHalf, count, b, noise);
    return low | high << (kHalf * kScheme.bits);
  }
}

// E2M1's number of a code, as MiniToF32 has it: its exponent and mantissa are those of an fp32
// that is 2^126 times smaller, denormals included.
LONGHAUL_TEXT float E2m1Value(uint32_t code) {
  const auto top = static_cast<int32_t>(code << 28);
  return FromBits(static_cast<uint32_t>(top >> 6) & 0x81C00000) * 0x1p126f;
}
template <BlockScheme kScheme>
LONGHAUL_TEXT float MiniValue(uint32_t code) {
  return kScheme.grid == Grid::kE2M1 ? E2m1Value(code)
                                     : MiniToF32(static_cast<uint8_t>(code), MiniOf(kScheme.grid));
}

// What a code of a rotated block counts, in steps of the scale or, E2M1, in halves of one: a whole
// number, never -0.
template <BlockScheme kScheme>
LONGHAUL_TEXT float StepsOf(uint32_t code) {
  if constexpr (IsMini(kScheme.grid)) {
    return MiniValue<kScheme>(code) * 2.0f + 0.0f;
  } else {
    return SmallToFloat(code, CodeOffset(kScheme));
  }
}

// A code's value.
template <BlockScheme kScheme>
LONGHAUL_TEXT float ValueOf(uint32_t code, float s, float z) {
  if constexpr (IsMini(kScheme.grid)) {
    return MiniValue<kScheme>(code) * s;
  } else {
    const float step = SmallToFloat(code, CodeOffset(kScheme)) * s;
    return kScheme.grid == Grid::kSymmetric ? step : z + step;
  }
}

// True where one of eight codes stands for no number; only floats of eight bits have such codes.
template <BlockScheme kScheme>
LONGHAUL_TEXT bool HasNoNumber(uint64_t codes) {
  if constexpr (kScheme.grid == Grid::kE4M3 || kScheme.grid == Grid::kE5M2) {
    constexpr uint32_t kBeyond = 0x7F - FormatOf(MiniOf(kScheme.grid)).max_code;
    // Adding makes bit 7 of a magnitude beyond the largest.
    const auto beyond = [](uint32_t four) {
      return ((four & 0x7F7F7F7F) + kBeyond * 0x01010101) & 0x80808080;
    };
    return (beyond(static_cast<uint32_t>(codes)) | beyond(static_cast<uint32_t>(codes >> 32))) != 0;
  } else {
    return false;
  }
}

}  // namespace longhaul
