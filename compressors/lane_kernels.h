#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "compressors/block_kernels.h"
#include "compressors/convert.h"

// The vector kernels, written once over a type L of lanes (avx2/lanes.h, avx512/lanes.h), so the
// two instruction sets cannot drift apart. Included only by the files that are compiled for them:
// every function below is a template on L, so no copy can reach another instruction set.
//
// L gives: kWidth; F, U (vectors of kWidth floats, 32-bit integers); Load<DType>, Store<DType>;
// Abs, MaxBits, MaxAcross; Min, Max, MinAcross, MaxFloatAcross; Mul, Add, Sub, Splat; Round;
// Hadamard64; StoreCodes<BlockScheme>, LoadCodes<bits>.
namespace longhaul {

// Elements of one block in registers.
template <class L>
constexpr int kVectors = static_cast<int>(kBlock) / L::kWidth;

// StoreCodes and LoadCodes may touch this many bytes beyond a block's codes.
constexpr size_t kCodeSlack = 16;

template <class L, BlockScheme kScheme, DType kType>
LONGHAUL_INLINE BlockFault EncodeOneBlock(const std::byte* x, BlockSections out) {
  typename L::F v[kVectors<L>];
  for (int i = 0; i < kVectors<L>; ++i) {
    v[i] = L::template Load<kType>(x + i * L::kWidth * BytesPerElement(kType));
  }
  if constexpr (kScheme.rotation == Rotation::kHadamard64) L::Hadamard64(v);
  typename L::U top = L::Abs(v[0]);
  for (int i = 1; i < kVectors<L>; ++i) top = L::MaxBits(top, L::Abs(v[i]));
  const uint32_t max_bits = L::MaxAcross(top);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;

  typename L::U q[kVectors<L>];
  uint16_t wire_s;
  if constexpr (kScheme.grid == Grid::kSymmetric) {
    const WireScale s = SymmetricScale(max_bits, Levels(kScheme));
    const typename L::F inverse = L::Splat(s.inverse);
    for (int i = 0; i < kVectors<L>; ++i) q[i] = L::Round(L::Mul(v[i], inverse));
    wire_s = s.wire;
  } else {
    typename L::F low = v[0], high = v[0];
    for (int i = 1; i < kVectors<L>; ++i) {
      low = L::Min(low, v[i]);
      high = L::Max(high, v[i]);
    }
    const float min = L::MinAcross(low), max = L::MaxFloatAcross(high);
    const uint16_t wire_z = AffineZero(min);
    const float z = Bf16ToF32(wire_z);
    if (AffineOverflows(min, max, z)) return BlockFault::kRange;
    const WireScale s = AffineScale(z, max, Levels(kScheme));
    const typename L::F zero = L::Splat(z), inverse = L::Splat(s.inverse);
    for (int i = 0; i < kVectors<L>; ++i) {
      q[i] = L::Round(L::Mul(L::Sub(v[i], zero), inverse));
    }
    wire_s = s.wire;
    __builtin_memcpy(out.zeros, &wire_z, 2);
  }
  __builtin_memcpy(out.scales, &wire_s, 2);
  L::template StoreCodes<kScheme>(q, out.codes);  // clamps to the grid
  return BlockFault::kNone;
}

template <class L, BlockScheme kScheme, DType kType>
LONGHAUL_INLINE bool DecodeOneBlock(ConstBlockSections in, std::byte* x) {
  uint16_t wire_s, wire_z = 0;
  __builtin_memcpy(&wire_s, in.scales, 2);
  if constexpr (kScheme.grid == Grid::kAffine) __builtin_memcpy(&wire_z, in.zeros, 2);
  if ((wire_s & 0x7F80) == 0x7F80 || (wire_z & 0x7F80) == 0x7F80) return false;
  const typename L::F s = L::Splat(Bf16ToF32(wire_s)), z = L::Splat(Bf16ToF32(wire_z));

  typename L::F v[kVectors<L>];
  for (int i = 0; i < kVectors<L>; ++i) {
    const typename L::U code =
        L::template LoadCodes<kScheme.bits>(in.codes + i * L::kWidth * kScheme.bits / 8);
    v[i] = L::Mul(L::ToFloat(code, CodeOffset(kScheme)), s);
    if constexpr (kScheme.grid == Grid::kAffine) v[i] = L::Add(z, v[i]);
  }
  if constexpr (kScheme.rotation == Rotation::kHadamard64) L::Hadamard64(v);
  for (int i = 0; i < kVectors<L>; ++i) {
    L::template Store<kType>(v[i], x + i * L::kWidth * BytesPerElement(kType));
  }
  return true;
}

// The last block goes through a buffer, because codes are stored and loaded in whole words.
template <class L, BlockScheme kScheme, DType kType>
BlockFault EncodeBlocksOn(const std::byte* x, size_t blocks, BlockSections out) {
  constexpr size_t kZeroStep = kScheme.grid == Grid::kAffine ? 2 : 0;
  constexpr size_t kCodeBytes = 8 * kScheme.bits;
  for (size_t b = 0; b < blocks; ++b) {
    std::byte codes[kCodeBytes + kCodeSlack];
    BlockSections to = out;
    if (b + 1 == blocks) to.codes = codes;
    const BlockFault fault = EncodeOneBlock<L, kScheme, kType>(x, to);
    if (fault != BlockFault::kNone) return fault;
    if (b + 1 == blocks) __builtin_memcpy(out.codes, codes, kCodeBytes);
    x += kBlock * BytesPerElement(kType);
    out.scales += 2;
    out.zeros += kZeroStep;
    out.codes += kCodeBytes;
  }
  return BlockFault::kNone;
}

template <class L, BlockScheme kScheme, DType kType>
bool DecodeBlocksOn(ConstBlockSections in, size_t blocks, std::byte* x) {
  constexpr size_t kZeroStep = kScheme.grid == Grid::kAffine ? 2 : 0;
  constexpr size_t kCodeBytes = 8 * kScheme.bits;
  for (size_t b = 0; b < blocks; ++b) {
    std::byte codes[kCodeBytes + kCodeSlack];
    ConstBlockSections from = in;
    if (b + 1 == blocks) {
      __builtin_memcpy(codes, in.codes, kCodeBytes);
      __builtin_memset(codes + kCodeBytes, 0, kCodeSlack);
      from.codes = codes;
    }
    if (!DecodeOneBlock<L, kScheme, kType>(from, x)) return false;
    x += kBlock * BytesPerElement(kType);
    in.scales += 2;
    in.zeros += kZeroStep;
    in.codes += kCodeBytes;
  }
  return true;
}

template <class L, size_t... kIndex>
constexpr BlockKernelTable MakeBlockKernels(std::index_sequence<kIndex...>) {
  using enum DType;
  return {{{{EncodeBlocksOn<L, kBlockSchemes[kIndex], kF32>,
             EncodeBlocksOn<L, kBlockSchemes[kIndex], kBF16>,
             EncodeBlocksOn<L, kBlockSchemes[kIndex], kF16>}...}},
          {{{DecodeBlocksOn<L, kBlockSchemes[kIndex], kF32>,
             DecodeBlocksOn<L, kBlockSchemes[kIndex], kBF16>,
             DecodeBlocksOn<L, kBlockSchemes[kIndex], kF16>}...}}};
}

template <class L, DType kFrom, DType kTo>
bool ConvertOn(const std::byte* in, size_t n, std::byte* out) {
  constexpr size_t kIn = BytesPerElement(kFrom), kOut = BytesPerElement(kTo);
  const size_t whole = n - n % L::kWidth;
  typename L::U top = L::Abs(L::Splat(0));
  for (size_t i = 0; i < whole; i += L::kWidth) {
    const typename L::F v = L::template Load<kFrom>(in + i * kIn);
    top = L::MaxBits(top, L::Abs(v));
    if constexpr (kFrom == kTo) {  // the very bits, NaN payloads included
      __builtin_memcpy(out + i * kOut, in + i * kIn, L::kWidth * kIn);
    } else {
      L::template Store<kTo>(v, out + i * kOut);
    }
  }
  bool finite = L::MaxAcross(top) < kInfBits;
  const ConvertFn reference =
      ScalarConverters()[static_cast<size_t>(kFrom)][static_cast<size_t>(kTo)];
  if (whole != n) finite &= reference(in + whole * kIn, n - whole, out + whole * kOut);
  return finite;
}

template <class L>
constexpr ConvertTable MakeConverters() {
  using enum DType;
  return {{{ConvertOn<L, kF32, kF32>, ConvertOn<L, kF32, kBF16>, ConvertOn<L, kF32, kF16>},
           {ConvertOn<L, kBF16, kF32>, ConvertOn<L, kBF16, kBF16>, ConvertOn<L, kBF16, kF16>},
           {ConvertOn<L, kF16, kF32>, ConvertOn<L, kF16, kBF16>, ConvertOn<L, kF16, kF16>}}};
}

}  // namespace longhaul
