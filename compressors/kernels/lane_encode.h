#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/lane_batch.h"

// Encoding for lane_kernels.h: whole batches (lane_batch.h) and what they leave.
namespace longhaul {

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
    CodedChunk<L, kScheme> chunk;
    for (int i = 0; i < kPacked; ++i) {
      chunk.Set(i, v[c * kPacked + i], OneBlock<L>(constants, (c * kPacked + i) / n));
    }
    chunk.Store(out.codes + c * 8 * kScheme.bits);
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
  return scalar::Table().encode_blocks[SchemeIndex(kScheme)](x, blocks, out);
}

template <class L, BlockScheme kScheme>
BlockFault EncodeBlocksOn(const std::byte* x, size_t blocks, BlockSections out) {
  if constexpr (kScheme.block > kLargestInBatch) {
    for (size_t b = 0; b < blocks; ++b) {
      const BlockFault fault = EncodeLargeBlock<L, kScheme, false>(x, nullptr, out);
      if (fault != BlockFault::kNone) return fault;
      x += kScheme.block * sizeof(float);
      out.scales += ScaleBytes(kScheme);
      out.codes += CodeBytes(kScheme);
    }
    return BlockFault::kNone;
  } else {
    // Codes that are no whole words overrun: then a whole batch must follow.
    constexpr size_t kMore = kScheme.bits == 4 || kScheme.bits == 8 ? 0 : 1;
    const size_t batches = blocks < kMore ? 0 : (blocks - kMore) / L::kWidth;
    const size_t good = EncodeBatches<L, kScheme, false>(x, nullptr, batches, out);
    const size_t done = good * L::kWidth;
    x += done * kScheme.block * sizeof(float);
    out.scales += done * ScaleBytes(kScheme);
    out.zeros += done * ZeroBytes(kScheme);
    out.codes += done * CodeBytes(kScheme);
    // The reference finds which block it is, and why.
    if (good < batches) {
      return scalar::Table().encode_blocks[SchemeIndex(kScheme)](x, L::kWidth, out);
    }
    return blocks == done ? BlockFault::kNone : EncodeRest<L, kScheme>(x, blocks - done, out);
  }
}

template <class L, BlockScheme kScheme>
size_t EncodeNoisyBlocksOn(const std::byte* x, const float* u, size_t blocks, BlockSections out) {
  if constexpr (kScheme.block > kLargestInBatch) {
    for (size_t b = 0; b < blocks; ++b) {
      const BlockFault fault = EncodeLargeBlock<L, kScheme, true>(x, u, out);
      if (fault != BlockFault::kNone) return b;
      x += kScheme.block * sizeof(float);
      u += kScheme.block;
      out.scales += ScaleBytes(kScheme);
      out.codes += CodeBytes(kScheme);
    }
    return blocks;
  } else {
    return EncodeBatches<L, kScheme, true>(x, u, blocks / L::kWidth, out) * L::kWidth;
  }
}

}  // namespace longhaul
