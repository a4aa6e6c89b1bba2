#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/fp4_kernels.h"
#include "compressors/lane_encode.h"

// FP4 under a scale of the whole tensor (fp4_kernels.h), over lanes as lane_kernels.h says.
namespace longhaul {

constexpr BlockScheme kNvElements = {4, Grid::kE2M1, Rotation::kNone, kNvBlock};
constexpr BlockScheme kE3m0Elements = {4, Grid::kE3M0};

// As NvScale: c [kWidth] codes of E4M3 -> c t.
template <class L>
LONGHAUL_INLINE typename L::F NvScales(typename L::U codes, float t) {
  using U = typename L::U;
  const U s = L::Bits(L::Mul(L::template FromMini<MiniFloat::kE4M3>(codes), L::Splat(t)));
  const U normal = L::KeepAtLeast(s, s, 0x00800000);
  const U reach = L::Abs(L::Mul(L::Splat(6.0f), L::FromBits(normal)));
  return L::FromBits(L::SubBits(normal, L::KeepAtLeast(L::SplatBits(1), reach, kInfBits)));
}

// L::kWidth blocks of 16.
template <class L>
LONGHAUL_INLINE void EncodeNvBatch(const std::byte* x, float t, std::byte* scales,
                                   std::byte* codes) {
  using U = typename L::U;
  constexpr int n = kNvBlock / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  U top[L::kWidth];
  for (int b = 0; b < L::kWidth; ++b) {
    PrefetchBehind(x + b * n * kStep);
    top[b] = L::Abs(L::template Load<DType::kF32>(x + b * n * kStep));
    for (int i = 1; i < n; ++i) {
      top[b] = L::MaxBits(top[b], L::Abs(L::template Load<DType::kF32>(x + (b * n + i) * kStep)));
    }
  }
  const typename L::F max = L::FromBits(L::AcrossMaxBits(top));
  const U code = ToMini<L, MiniFloat::kE4M3>(L::Div(L::Div(max, L::Splat(6.0f)), L::Splat(t)));
  const U s = L::Bits(NvScales<L>(code, t));
  L::StoreBytes(L::KeepAtLeast(code, s, 1), scales);
  const U inverse = L::Bits(L::Div(L::Splat(1.0f), L::FromBits(s)));
  BatchConstants<L> constants = {};
  L::template Store<DType::kF32>(L::FromBits(L::KeepAtLeast(inverse, s, 1)),
                                 reinterpret_cast<std::byte*>(constants.inverse));
  L::template Store<DType::kF32>(L::FromBits(L::KeepAtLeast(L::SplatBits(0x80000000), s, 1)),
                                 reinterpret_cast<std::byte*>(constants.sign));
  constexpr int kVectors = kChunk / L::kWidth;
  for (int c = 0; c < kNvBlock * L::kWidth / kChunk; ++c) {
    U q[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      const int at = c * kVectors + i;
      q[i] = Quantize<L, kNvElements>(L::template Load<DType::kF32>(x + at * kStep),
                                      OneBlock<L>(constants, c * (kChunk / kNvBlock) + i / n));
    }
    L::template StoreCodes<kNvElements>(q, codes + 32 * c);
  }
}

template <class L>
void EncodeNvOn(const std::byte* x, size_t groups, float t, std::byte* scales, std::byte* codes) {
  constexpr size_t kBatch = L::kWidth;  // blocks
  for (size_t b = 0; b < groups * kFp4Group / kNvBlock; b += kBatch) {
    EncodeNvBatch<L>(x + 4 * kNvBlock * b, t, scales + b, codes + kNvBlock / 2 * b);
  }
}

// The codes of 64 elements where LoadCodes may read beyond them.
struct Fp4Chunk {
  LONGHAUL_INLINE explicit Fp4Chunk(const std::byte* codes) {
    __builtin_memcpy(bytes, codes, 32);
    __builtin_memset(bytes + 32, 0, kCodeSlack);
  }
  std::byte bytes[32 + kCodeSlack];
};

template <class L>
bool DecodeNvOn(const std::byte* scales, const std::byte* codes, size_t groups, float t,
                std::byte* x) {
  constexpr size_t kStep = L::kWidth * sizeof(float);
  unsigned top = 0;
  for (size_t c = 0; c < groups * kFp4Group / kChunk; ++c, codes += 32) {
    const Fp4Chunk chunk(codes);
    for (int b = 0; b < kChunk / kNvBlock; ++b, ++scales) {
      const auto code = static_cast<uint8_t>(*scales);
      top = code > top ? code : top;
      const typename L::F s = L::Splat(NvScale(code, t));
      for (int i = 0; i < kNvBlock / L::kWidth; ++i, x += kStep) {
        const typename L::U q = L::template LoadCodes<4>(chunk.bytes + 8 * b + i * L::kWidth / 2);
        L::template Store<DType::kF32>(L::Mul(L::template FromMini<MiniFloat::kE2M1>(q), s), x);
      }
    }
  }
  return top <= 0x7E;
}

template <class L>
void EncodeE3m0On(const std::byte* x, size_t groups, float inverse, std::byte* codes) {
  constexpr int kVectors = kChunk / L::kWidth;
  const typename L::F by = L::Splat(inverse);
  for (size_t c = 0; c < groups * kFp4Group / kChunk; ++c, codes += 32) {
    typename L::U q[kVectors];
    for (int i = 0; i < kVectors; ++i, x += L::kWidth * sizeof(float)) {
      if (i * L::kWidth % 16 == 0) PrefetchBehind(x);
      const typename L::F v = L::template Load<DType::kF32>(x);
      const typename L::U sign = L::And(L::Bits(v), L::SplatBits(0x80000000));
      q[i] = L::Or(ToMini<L, MiniFloat::kE3M0>(L::Mul(v, by)), L::template ShiftRight<28>(sign));
    }
    L::template StoreCodes<kE3m0Elements>(q, codes);
  }
}

template <class L>
void DecodeE3m0On(const std::byte* codes, size_t groups, float s, std::byte* x) {
  const typename L::F by = L::Splat(s);
  for (size_t c = 0; c < groups * kFp4Group / kChunk; ++c, codes += 32) {
    const Fp4Chunk chunk(codes);
    for (int i = 0; i < kChunk; i += L::kWidth, x += L::kWidth * sizeof(float)) {
      const typename L::U q = L::template LoadCodes<4>(chunk.bytes + i / 2);
      L::template Store<DType::kF32>(L::Mul(L::template FromMini<MiniFloat::kE3M0>(q), by), x);
    }
  }
}

template <class L>
constexpr Fp4Kernels MakeFp4Kernels() {
  return {EncodeNvOn<L>, DecodeNvOn<L>, EncodeE3m0On<L>, DecodeE3m0On<L>};
}

}  // namespace longhaul
