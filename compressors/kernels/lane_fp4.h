#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/fp4_scale.h"
#include "compressors/kernels/lane_encode.h"
#include "compressors/kernels/prefetch.h"

// nvfp4 (kernels.h), over lanes as lane_kernels.h says.
namespace longhaul {

constexpr BlockScheme kNvElements = {4, Grid::kE2M1, Rotation::kNone, kNvBlock};

// As NvScale: c [kWidth] codes of E4M3 -> c t.
template <class L>
LONGHAUL_INLINE typename L::F NvScales(typename L::U codes, float t) {
  using U = typename L::U;
  const U s = L::Bits(L::Mul(L::template FromMini<MiniFloat::kE4M3>(codes), L::Splat(t)));
  const U normal = L::KeepAtLeast(s, s, 0x00800000);
  const U reach = L::Abs(L::Mul(L::Splat(6.0f), L::FromBits(normal)));
  return L::FromBits(L::SubBits(normal, L::KeepAtLeast(L::SplatBits(1), reach, kInfBits)));
}

// The largest |x| of each of L::kWidth blocks of 16.
template <class L>
LONGHAUL_INLINE typename L::F NvTops(const std::byte* x) {
  constexpr int n = kNvBlock / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  typename L::U top[L::kWidth];
  for (int b = 0; b < L::kWidth; ++b, x += n * kStep) {
    top[b] = L::Abs(L::template Load<DType::kF32>(x));
    for (int i = 1; i < n; ++i) {
      top[b] = L::MaxBits(top[b], L::Abs(L::template Load<DType::kF32>(x + i * kStep)));
    }
  }
  return L::FromBits(L::AcrossMaxBits(top));
}

// max: what NvTops answers. Writes the blocks' scales.
template <class L>
LONGHAUL_INLINE void ScaleNvBatch(typename L::F max, float t, std::byte* scales,
                                  BatchConstants<L>& constants) {
  using U = typename L::U;
  const U code = ToMini<L, MiniFloat::kE4M3>(L::Div(L::Div(max, L::Splat(6.0f)), L::Splat(t)));
  const U s = L::Bits(NvScales<L>(code, t));
  L::StoreBytes(L::KeepAtLeast(code, s, 1), scales);
  const U inverse = L::Bits(L::Div(L::Splat(1.0f), L::FromBits(s)));
  L::template Store<DType::kF32>(L::FromBits(L::KeepAtLeast(inverse, s, 1)),
                                 reinterpret_cast<std::byte*>(constants.inverse));
  L::template Store<DType::kF32>(L::FromBits(L::KeepAtLeast(L::SplatBits(0x80000000), s, 1)),
                                 reinterpret_cast<std::byte*>(constants.sign));
}

template <class L>
LONGHAUL_INLINE void StoreNvBatch(const std::byte* x, const BatchConstants<L>& constants,
                                  std::byte* codes) {
  constexpr int kVectors = kChunk / L::kWidth, n = kNvBlock / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  for (int c = 0; c < kNvBlock * L::kWidth / kChunk; ++c) {
    PrefetchLines(x + c * (4 * kChunk) + kFetchAhead, 4 * kChunk);
    CodedChunk<L, kNvElements> chunk;
    for (int i = 0; i < kVectors; ++i) {
      const int at = c * kVectors + i;
      chunk.Set(i, L::template Load<DType::kF32>(x + at * kStep),
                OneBlock<L>(constants, c * (kChunk / kNvBlock) + i / n));
    }
    chunk.Store(codes + 32 * c);
  }
}

// The largest elements of a batch are looked for between the scales and the codes of the one
// before, so that nothing waits for its three divisions.
template <class L>
void EncodeNvOn(const std::byte* x, size_t groups, float t, std::byte* scales, std::byte* codes) {
  constexpr size_t kBytes = 4 * kNvBlock * L::kWidth;
  const size_t batches = groups * kFp4Group / (kNvBlock * L::kWidth);
  BatchConstants<L> constants = {};
  typename L::F max = NvTops<L>(x);
  for (size_t b = 0; b < batches; ++b, x += kBytes) {
    ScaleNvBatch<L>(max, t, scales + b * L::kWidth, constants);
    if (b + 1 < batches) max = NvTops<L>(x + kBytes);
    StoreNvBatch<L>(x, constants, codes + b * (kBytes / 8));
  }
}

// Codes whose last 64 lie where LoadCodes may read beyond them.
struct Fp4Codes {
  LONGHAUL_INLINE Fp4Codes(const std::byte* codes, size_t chunks) : codes(codes), last(chunks - 1) {
    __builtin_memcpy(tail, codes + 32 * last, 32);
    __builtin_memset(tail + 32, 0, kCodeSlack);
  }
  LONGHAUL_INLINE const std::byte* Chunk(size_t c) const {
    return c < last ? codes + 32 * c : tail;
  }
  const std::byte* codes;
  size_t last;
  std::byte tail[32 + kCodeSlack];
};

template <class L>
bool DecodeNvOn(const std::byte* scales, const std::byte* codes, size_t groups, float t,
                std::byte* x) {
  constexpr size_t kStep = L::kWidth * sizeof(float);
  constexpr size_t kChunkBlocks = kChunk / kNvBlock;
  static constexpr FourBitValues kValues = ValuesOf(MiniFloat::kE2M1);
  const typename L::Entries values(kValues.of);
  const Fp4Codes all(codes, groups * kFp4Group / kChunk);
  typename L::U top = L::Zero();
  alignas(64) float s[L::kWidth];
  for (size_t b = 0; b < groups * kFp4Group / kNvBlock; ++b) {
    if (b % L::kWidth == 0) {
      const typename L::U code = L::LoadUnsigned(scales + b);
      top = L::MaxBits(top, code);
      L::template Store<DType::kF32>(NvScales<L>(code, t), reinterpret_cast<std::byte*>(s));
    }
    const std::byte* from = all.Chunk(b / kChunkBlocks) + 8 * (b % kChunkBlocks);
    for (int i = 0; i < kNvBlock / L::kWidth; ++i, x += kStep) {
      const typename L::U q = L::template LoadCodes<4>(from + i * L::kWidth / 2);
      L::template Store<DType::kF32>(L::Mul(values.Of(q), L::Splat(s[b % L::kWidth])), x);
    }
  }
  return L::MaxAcross(top) <= 0x7E;
}

}  // namespace longhaul
