#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/lane_scales.h"

// Encoding for lane_kernels.h. L::kWidth blocks are worked on at once: first the extremes of each
// (two loads per cycle, no waiting), then all their scales in one vector, then the codes. The
// second reading finds the blocks in the nearest cache.
namespace longhaul {

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
