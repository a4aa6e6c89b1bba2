#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/block_kernels.h"

// Encoding for lane_kernels.h. L::kWidth blocks are worked on at once: first the extremes of each
// (two loads per cycle, no waiting), then all their scales in one vector, then the codes. The
// second reading finds the blocks in the nearest cache.
namespace longhaul {

constexpr int kChunk = 64;            // elements whose codes are packed at once
constexpr int kLargestInBatch = 128;  // larger blocks are worked on one by one
constexpr size_t kCodeSlack = 16;     // StoreCodes and LoadCodes may touch so many bytes beyond

// The scales of one batch; lane b is block b's.
template <class L>
struct BatchScale {
  typename L::U wire;     // bf16 in the upper half, or the byte of E8M0
  typename L::F inverse;  // 1 / value, 0 when the scale is 0
};

// As RoundScale.
template <class L, typename Reach>
LONGHAUL_INLINE BatchScale<L> RoundScales(typename L::F scale, Reach reach) {
  using U = typename L::U;
  const U u = L::Bits(scale);
  const U even = L::And(L::template ShiftRight<16>(u), L::SplatBits(1));
  U wire = L::And(L::AddBits(L::AddBits(u, L::SplatBits(0x7FFF)), even), L::SplatBits(0xFFFF0000));
  wire = L::KeepAtLeast(wire, L::And(wire, L::SplatBits(0x7F800000)), 0x00800000);
  const U farthest = L::Abs(reach(L::FromBits(wire)));
  wire = L::SubBits(wire, L::KeepAtLeast(L::SplatBits(0x10000), farthest, kInfBits));
  const U inverse = L::Bits(L::Div(L::Splat(1.0f), L::FromBits(wire)));
  return {wire, L::FromBits(L::KeepAtLeast(inverse, L::Abs(L::FromBits(wire)), 1))};
}

// As AbsMaxScale.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE BatchScale<L> AbsMaxScales(typename L::U max_bits) {
  if constexpr (kScheme.scale == ScaleType::kE8M0) {
    const typename L::U exponent = L::template ShiftRight<23>(max_bits);
    const typename L::U inverse =
        L::template ShiftLeft<23>(L::SubBits(L::SplatBits(256), exponent));
    return {L::KeepAtLeast(L::SubBits(exponent, L::SplatBits(2)), exponent, 3),
            L::FromBits(L::KeepAtLeast(inverse, exponent, 3))};
  } else {
    const typename L::F top = L::Splat(TopValue(kScheme));
    return RoundScales<L>(
        L::Div(L::FromBits(max_bits), top), [top](typename L::F s) __attribute__((always_inline)) {
          return L::Mul(top, s);
        });
  }
}

// As AffineZero.
template <class L>
LONGHAUL_INLINE typename L::U AffineZeros(typename L::F min) {
  using U = typename L::U;
  const U u = L::Bits(min);
  const U even = L::And(L::template ShiftRight<16>(u), L::SplatBits(1));
  const U wire =
      L::And(L::AddBits(L::AddBits(u, L::SplatBits(0x7FFF)), even), L::SplatBits(0xFFFF0000));
  return L::KeepAtLeast(wire, L::And(wire, L::SplatBits(0x7F800000)), 0x00800000);
}

// As F32ToMini but for the sign. With a mantissa, adding a power of two rounds to as many bits.
template <class L, MiniFloat kType>
LONGHAUL_INLINE typename L::U ToMini(typename L::F x) {
  using U = typename L::U;
  constexpr MiniFormat f = FormatOf(kType);
  if constexpr (f.mantissa == 0) return L::template ToPowers<kType>(x);
  constexpr int cut = 23 - f.mantissa;
  constexpr uint32_t least = static_cast<uint32_t>(128 - f.bias) << 23;  // smallest normal
  const typename L::F abs = L::Min(L::FromBits(L::Abs(x)), L::Splat(f.max));
  const U exponent =
      L::MaxBits(L::And(L::Bits(abs), L::SplatBits(0x7F800000)), L::SplatBits(least));
  const typename L::F magic =
      L::FromBits(L::AddBits(exponent, L::SplatBits(static_cast<uint32_t>(cut) << 23)));
  const U rounded = L::SubBits(L::Bits(L::Add(abs, magic)), exponent);
  constexpr uint32_t offset = (static_cast<uint32_t>(cut) << 23) + (least >> cut);
  return L::SubBits(L::AddBits(rounded, L::template ShiftRight<cut>(exponent)),
                    L::SplatBits(offset));
}

// What the second reading needs of each block.
template <class L>
struct BatchConstants {
  alignas(64) float inverse[L::kWidth];
  alignas(64) float zero[L::kWidth];
  alignas(64) float sign[L::kWidth];  // -0 where signs count: a block without scale has none
};

// Extremes of one batch -> scales and zeros as they stand in the frame, and the constants. False:
// some block holds NaN or Inf, or its range is beyond fp32.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE bool ScaleBatch(const typename L::U* top, const typename L::F* low,
                                const typename L::F* high, BlockSections out,
                                BatchConstants<L>& constants) {
  using F = typename L::F;
  using U = typename L::U;
  const U max_bits = L::AcrossMaxBits(top);
  U broken = max_bits;
  BatchScale<L> scale;
  if constexpr (kScheme.grid == Grid::kAffine) {
    const F min = L::AcrossMin(low), max = L::AcrossMax(high);
    const U wire_z = AffineZeros<L>(min);
    const F z = L::FromBits(wire_z);
    broken = L::MaxBits(broken, L::Abs(L::Sub(max, min)));
    broken = L::MaxBits(broken, L::MaxBits(L::Abs(L::Sub(max, z)), L::Abs(z)));
    const F levels = L::Splat(static_cast<float>(Levels(kScheme)));
    scale = RoundScales<L>(
        L::Div(L::Sub(max, z), levels),
        [ levels, z ](F s) __attribute__((always_inline)) { return L::Add(z, L::Mul(levels, s)); });
    L::StoreHalves(L::template ShiftRight<16>(wire_z), out.zeros);
    L::template Store<DType::kF32>(z, reinterpret_cast<std::byte*>(constants.zero));
  } else {
    scale = AbsMaxScales<L, kScheme>(max_bits);
  }
  if (L::MaxAcross(broken) >= kInfBits) return false;
  if constexpr (kScheme.scale == ScaleType::kE8M0) {
    L::StoreBytes(scale.wire, out.scales);
  } else {
    L::StoreHalves(L::template ShiftRight<16>(scale.wire), out.scales);
  }
  L::template Store<DType::kF32>(scale.inverse, reinterpret_cast<std::byte*>(constants.inverse));
  if constexpr (IsMini(kScheme.grid)) {
    const U sign = L::KeepAtLeast(L::SplatBits(0x80000000), L::Bits(scale.inverse), 1);
    L::template Store<DType::kF32>(L::FromBits(sign), reinterpret_cast<std::byte*>(constants.sign));
  }
  return true;
}

// One vector of block b -> its codes, as stored but for the clamp, which StoreCodes does.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE typename L::U Quantize(typename L::F v, const BatchConstants<L>& constants, int b) {
  const typename L::F inverse = L::Splat(constants.inverse[b]);
  if constexpr (kScheme.grid == Grid::kAffine) {
    return L::Round(L::Mul(L::Sub(v, L::Splat(constants.zero[b])), inverse));
  } else if constexpr (IsMini(kScheme.grid)) {
    const typename L::U sign = L::And(L::Bits(v), L::Bits(L::Splat(constants.sign[b])));
    return L::Or(ToMini<L, MiniOf(kScheme.grid)>(L::Mul(v, inverse)),
                 L::template ShiftRight<32 - kScheme.bits>(sign));
  } else {
    return L::Round(L::Mul(v, inverse));
  }
}

// L::kWidth blocks. False as ScaleBatch; `out` then holds nothing of use.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE bool EncodeBatch(const std::byte* x, BlockSections out) {
  using F = typename L::F;
  constexpr int n = kScheme.block / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  constexpr bool kRotated = kScheme.rotation == Rotation::kHadamard;
  alignas(64) std::byte rotated[kRotated ? L::kWidth * n * kStep : 1];
  typename L::U top[L::kWidth];
  F low[L::kWidth], high[L::kWidth];
  for (int b = 0; b < L::kWidth; ++b) {
    F v[n];
    for (int i = 0; i < n; ++i) v[i] = L::template Load<DType::kF32>(x + (b * n + i) * kStep);
    if constexpr (kRotated) {
      L::template Hadamard<kScheme.block>(v);
      for (int i = 0; i < n; ++i) {
        L::template Store<DType::kF32>(v[i], rotated + (b * n + i) * kStep);
      }
    }
    top[b] = L::Abs(v[0]);
    low[b] = high[b] = v[0];
    for (int i = 1; i < n; ++i) {
      top[b] = L::MaxBits(top[b], L::Abs(v[i]));
      if constexpr (kScheme.grid == Grid::kAffine) {
        low[b] = L::Min(low[b], v[i]);
        high[b] = L::Max(high[b], v[i]);
      }
    }
  }
  BatchConstants<L> constants;
  if (!ScaleBatch<L, kScheme>(top, low, high, out, constants)) return false;
  const std::byte* from = kRotated ? rotated : x;
  constexpr int kVectors = kChunk / L::kWidth;
  for (int c = 0; c < kScheme.block * L::kWidth / kChunk; ++c) {
    typename L::U q[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      const int at = c * kVectors + i;
      q[i] =
          Quantize<L, kScheme>(L::template Load<DType::kF32>(from + at * kStep), constants, at / n);
    }
    L::template StoreCodes<kScheme>(q, out.codes + c * 8 * kScheme.bits);
  }
  return true;
}

// One block that is larger than kLargestInBatch.
template <class L, BlockScheme kScheme>
BlockFault EncodeLargeBlock(const std::byte* x, BlockSections out) {
  static_assert(kScheme.grid == Grid::kSymmetric && kScheme.rotation == Rotation::kNone);
  constexpr int n = kChunk / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  typename L::U top[n];
  for (int i = 0; i < n; ++i) top[i] = L::Zero();
  for (int c = 0; c < kScheme.block / kChunk; ++c) {
    for (int i = 0; i < n; ++i) {
      top[i] = L::MaxBits(top[i], L::Abs(L::template Load<DType::kF32>(x + (c * n + i) * kStep)));
    }
  }
  for (int i = 1; i < n; ++i) top[0] = L::MaxBits(top[0], top[i]);
  const uint32_t max_bits = L::MaxAcross(top[0]);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;
  const WireScale s = AbsMaxScale(kScheme, max_bits);
  WriteScale(kScheme, s, out.scales);
  const typename L::F inverse = L::Splat(s.inverse);
  for (int c = 0; c < kScheme.block / kChunk; ++c) {
    typename L::U q[n];
    for (int i = 0; i < n; ++i) {
      q[i] = L::Round(L::Mul(L::template Load<DType::kF32>(x + (c * n + i) * kStep), inverse));
    }
    L::template StoreCodes<kScheme>(q, out.codes + c * 8 * kScheme.bits);
  }
  return BlockFault::kNone;
}

// What is left of a row: groups of at least kChunk elements, whose scales are computed one by one.
template <BlockScheme kScheme>
constexpr int kGroupBlocks = kScheme.block < kChunk ? kChunk / kScheme.block : 1;

template <class L, BlockScheme kScheme>
LONGHAUL_INLINE BlockFault ScaleBlock(const typename L::F* v, int b, BlockSections out,
                                      BatchConstants<L>& constants) {
  constexpr int n = kScheme.block / L::kWidth;
  typename L::U top = L::Abs(v[0]);
  typename L::F low = v[0], high = v[0];
  for (int i = 1; i < n; ++i) {
    top = L::MaxBits(top, L::Abs(v[i]));
    if constexpr (kScheme.grid == Grid::kAffine) {
      low = L::Min(low, v[i]);
      high = L::Max(high, v[i]);
    }
  }
  const uint32_t max_bits = L::MaxAcross(top);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;
  WireScale s;
  if constexpr (kScheme.grid == Grid::kAffine) {
    const float min = L::MinAcross(low), max = L::MaxFloatAcross(high);
    const uint16_t wire_z = AffineZero(min);
    const float z = Bf16ToF32(wire_z);
    if (AffineOverflows(min, max, z)) return BlockFault::kRange;
    s = AffineScale(z, max, Levels(kScheme));
    constants.zero[b] = z;
    __builtin_memcpy(out.zeros + 2 * b, &wire_z, 2);
  } else {
    s = AbsMaxScale(kScheme, max_bits);
  }
  WriteScale(kScheme, s, out.scales + ScaleBytes(kScheme) * static_cast<size_t>(b));
  constants.inverse[b] = s.inverse;
  constants.sign[b] = s.value == 0 ? 0.0f : -0.0f;
  return BlockFault::kNone;
}

// codes: room for kCodeSlack bytes more.
template <class L, BlockScheme kScheme>
BlockFault EncodeGroup(const std::byte* x, BlockSections out) {
  constexpr int kVectors = kScheme.block * kGroupBlocks<kScheme> / L::kWidth;
  constexpr int n = kScheme.block / L::kWidth;
  typename L::F v[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    v[i] = L::template Load<DType::kF32>(x + i * L::kWidth * sizeof(float));
  }
  BatchConstants<L> constants;
  for (int b = 0; b < kGroupBlocks<kScheme>; ++b) {
    if constexpr (kScheme.rotation == Rotation::kHadamard) {
      L::template Hadamard<kScheme.block>(v + b * n);
    }
    const BlockFault fault = ScaleBlock<L, kScheme>(v + b * n, b, out, constants);
    if (fault != BlockFault::kNone) return fault;
  }
  constexpr int kPacked = kChunk / L::kWidth;
  for (int c = 0; c < kVectors / kPacked; ++c) {
    typename L::U q[kPacked];
    for (int i = 0; i < kPacked; ++i) {
      q[i] = Quantize<L, kScheme>(v[c * kPacked + i], constants, (c * kPacked + i) / n);
    }
    L::template StoreCodes<kScheme>(q, out.codes + c * 8 * kScheme.bits);
  }
  return BlockFault::kNone;
}

template <class L, BlockScheme kScheme>
BlockFault EncodeRest(const std::byte* x, size_t blocks, BlockSections out) {
  constexpr size_t kGroup = kGroupBlocks<kScheme>;
  constexpr size_t kBytes = kGroup * CodeBytes(kScheme);
  for (; blocks >= kGroup; blocks -= kGroup) {
    std::byte codes[kBytes + kCodeSlack];
    const BlockFault fault = EncodeGroup<L, kScheme>(x, {out.scales, out.zeros, codes});
    if (fault != BlockFault::kNone) return fault;
    __builtin_memcpy(out.codes, codes, kBytes);
    x += kGroup * kScheme.block * sizeof(float);
    out.scales += kGroup * ScaleBytes(kScheme);
    out.zeros += kGroup * ZeroBytes(kScheme);
    out.codes += kBytes;
  }
  if (blocks == 0) return BlockFault::kNone;
  return ScalarBlockKernels().encode[SchemeIndex(kScheme)](x, blocks, out);
}

template <class L, BlockScheme kScheme>
BlockFault EncodeBlocksOn(const std::byte* x, size_t blocks, BlockSections out) {
  constexpr bool kLarge = kScheme.block > kLargestInBatch;
  constexpr size_t kBatch = kLarge ? 1 : L::kWidth;
  // Codes that are no whole words overrun: then a whole batch must follow.
  constexpr size_t kMore = kScheme.bits == 4 || kScheme.bits == 8 ? 0 : 1;
  for (; blocks >= kBatch + kMore; blocks -= kBatch) {
    if constexpr (kLarge) {
      const BlockFault fault = EncodeLargeBlock<L, kScheme>(x, out);
      if (fault != BlockFault::kNone) return fault;
    } else if (!EncodeBatch<L, kScheme>(x, out)) {
      // The reference finds which block it is, and why.
      return ScalarBlockKernels().encode[SchemeIndex(kScheme)](x, kBatch, out);
    }
    x += kBatch * kScheme.block * sizeof(float);
    out.scales += kBatch * ScaleBytes(kScheme);
    out.zeros += kBatch * ZeroBytes(kScheme);
    out.codes += kBatch * CodeBytes(kScheme);
  }
  if constexpr (!kLarge) {
    if (blocks > 0) return EncodeRest<L, kScheme>(x, blocks, out);
  }
  return BlockFault::kNone;
}

}  // namespace longhaul
