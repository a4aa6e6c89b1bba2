#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compressors/kernels/lane_scales.h"
#include "compressors/kernels/prefetch.h"

// Encoding for lane_kernels.h. L::kWidth blocks are worked on at once: first the extremes of each
// (two loads per cycle, no waiting), then all their scales in one vector, then the codes. The
// second reading finds the blocks in the nearest cache. What comes later is fetched where most is
// computed: with the codes, or with a rotation. The extremes of a batch are read between the scales
// and the codes of the one before, so that nothing waits for a division.
namespace longhaul {

template <BlockScheme kScheme>
constexpr bool kFetchedWithCodes = kScheme.rotation == Rotation::kNone;

// L::kWidth blocks; `rotated` holds them afterwards, where they are rotated.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE BatchExtremes<L> ReadExtremes(const std::byte* x,
                                              [[maybe_unused]] std::byte* rotated) {
  constexpr int n = kScheme.block / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  constexpr bool kAffine = kScheme.grid == Grid::kAffine;
  typename L::U top[kAffine ? 1 : L::kWidth];
  typename L::F low[L::kWidth], high[L::kWidth];
  typename L::NaNs nans;  // which minimum and maximum lose
  for (int b = 0; b < L::kWidth; ++b) {
    typename L::F v[n];
    for (int i = 0; i < n; ++i) {
      if (!kFetchedWithCodes<kScheme> && i * kStep % 64 == 0) {
        PrefetchBehind(x + (b * n + i) * kStep);
      }
      v[i] = L::template Load<DType::kF32>(x + (b * n + i) * kStep);
    }
    if constexpr (kScheme.rotation == Rotation::kHadamard) {
      L::template Hadamard<kScheme.block>(v);
      for (int i = 0; i < n; ++i) {
        L::template Store<DType::kF32>(v[i], rotated + (b * n + i) * kStep);
      }
    }
    if constexpr (kAffine) {
      low[b] = high[b] = v[0];
      for (int i = 1; i < n; ++i) {
        low[b] = L::Min(low[b], v[i]);
        high[b] = L::Max(high[b], v[i]);
      }
      for (int i = 0; i < n; i += 2) nans.Add(v[i], v[i + 1]);
    } else {
      top[b] = L::Abs(v[0]);
      for (int i = 1; i < n; ++i) top[b] = L::MaxBits(top[b], L::Abs(v[i]));
    }
  }
  if constexpr (kAffine) {
    return {L::SplatBits(nans.any() ? kInfBits : 0), L::AcrossMin(low), L::AcrossMax(high)};
  } else {
    return {L::AcrossMaxBits(top), L::Splat(0), L::Splat(0)};
  }
}

// A chunk of 64 elements, of block `b` or from there on -> codes. u: the chunk's draws, if kNoisy.
template <class L, BlockScheme kScheme, bool kNoisy>
LONGHAUL_INLINE void StoreChunk(const std::byte* x, const float* u,
                                const BatchConstants<L>& constants, int b, std::byte* codes) {
  constexpr int kVectors = kChunk / L::kWidth, n = kScheme.block / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  CodedChunk<L, kScheme> chunk;
  typename L::U noisy[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    const OneBlock<L> block(constants, kScheme.block < kChunk ? b + i / n : b);
    const typename L::F v = L::template Load<DType::kF32>(x + i * kStep);
    if constexpr (kNoisy) {
      const auto* draws = reinterpret_cast<const std::byte*>(u) + i * kStep;
      noisy[i] = QuantizeNoisy<L, kScheme>(v, L::template Load<DType::kF32>(draws), block);
    } else {
      chunk.Set(i, v, block);
    }
  }
  if constexpr (kNoisy) {
    L::template StoreCodes<kScheme>(noisy, codes);
  } else {
    chunk.Store(codes);
  }
}

// `batches` of L::kWidth blocks; u: their draws, if kNoisy. Answers how many are done: the next one
// has NaN or Inf, or its range is beyond fp32.
template <class L, BlockScheme kScheme, bool kNoisy>
LONGHAUL_INLINE size_t EncodeBatches(const std::byte* x, const float* u, size_t batches,
                                     BlockSections out) {
  constexpr size_t kElements = size_t{kScheme.block} * L::kWidth;
  constexpr bool kRotated = kScheme.rotation == Rotation::kHadamard;
  constexpr int kChunks = static_cast<int>(kElements) / kChunk;
  constexpr size_t kAhead = std::max<size_t>(kFetchAhead, 2 * 4 * kElements) + 512;
  alignas(64) std::byte rotated[2][kRotated ? 4 * kElements : 1];
  BatchConstants<L> constants;
  BatchExtremes<L> next = {L::Zero(), L::Splat(0), L::Splat(0)};
  for (size_t b = 0; b <= batches; ++b) {
    if (b > 0 && !ScaleBatch<L, kScheme, kNoisy>(next, out, constants)) return b - 1;
    if (b < batches) next = ReadExtremes<L, kScheme>(x + 4 * kElements * b, rotated[b % 2]);
    if (b == 0) continue;
    const std::byte* const coded = x + 4 * kElements * (b - 1);
    const std::byte* const from = kRotated ? rotated[(b - 1) % 2] : coded;
    for (int c = 0; c < kChunks; ++c) {
      if (kFetchedWithCodes<kScheme>) {
        PrefetchLines(coded + c * (4 * kChunk) + kAhead, 4 * kChunk);
      }
      const int block =
          kScheme.block < kChunk ? c * (kChunk / kScheme.block) : c / (kScheme.block / kChunk);
      StoreChunk<L, kScheme, kNoisy>(from + c * (4 * kChunk), u, constants, block,
                                     out.codes + c * (8 * kScheme.bits));
      if constexpr (kNoisy) u += kChunk;
    }
    out.scales += L::kWidth * ScaleBytes(kScheme);
    out.zeros += L::kWidth * ZeroBytes(kScheme);
    out.codes += L::kWidth * CodeBytes(kScheme);
  }
  return batches;
}

// One block that is larger than kLargestInBatch; u: its draws, if kNoisy.
template <class L, BlockScheme kScheme, bool kNoisy>
LONGHAUL_INLINE BlockFault EncodeLargeBlock(const std::byte* x, const float* u, BlockSections out) {
  static_assert(kScheme.grid == Grid::kSymmetric && kScheme.rotation == Rotation::kNone);
  constexpr int n = kChunk / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  typename L::U top[n];
  for (int i = 0; i < n; ++i) top[i] = L::Zero();
  for (int c = 0; c < kScheme.block / kChunk; ++c) {
    for (int i = 0; i < n; ++i) {
      const std::byte* at = x + (c * n + i) * kStep;
      if (i * kStep % 64 == 0) PrefetchBehind(at);
      top[i] = L::MaxBits(top[i], L::Abs(L::template Load<DType::kF32>(at)));
    }
  }
  for (int i = 1; i < n; ++i) top[0] = L::MaxBits(top[0], top[i]);
  const uint32_t max_bits = L::MaxAcross(top[0]);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;
  const WireScale s = AbsMaxScale(kScheme, max_bits);
  WriteScale(kScheme, s, out.scales);
  BatchConstants<L> constants;
  constants.inverse[0] = s.inverse;
  constants.zero[0] = constants.sign[0] = 0;
  for (int c = 0; c < kScheme.block / kChunk; ++c) {
    StoreChunk<L, kScheme, kNoisy>(x + c * (4 * kChunk), kNoisy ? u + c * kChunk : u, constants, 0,
                                   out.codes + c * (8 * kScheme.bits));
  }
  return BlockFault::kNone;
}

}  // namespace longhaul
