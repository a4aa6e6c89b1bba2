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
// Abs, MaxBits, MaxAcross; Min, Max, MinAcross, MaxFloatAcross; Mul, Add, Sub, Splat, Zero; Round,
// ToFloat; ToMini, FromMini, Magnitude<MiniFloat>; Hadamard<n>; StoreCodes<BlockScheme>,
// LoadCodes<bits>.
namespace longhaul {

// Blocks are worked on in groups of at least 64 elements, because 64 codes pack at once; blocks up
// to kInRegisters elements stay in registers between the maximum and the rounding.
constexpr int kChunk = 64;
constexpr int kInRegisters = 128;
template <BlockScheme kScheme>
constexpr int kGroupBlocks = kScheme.block < kChunk ? kChunk / kScheme.block : 1;

// StoreCodes and LoadCodes may touch this many bytes beyond a chunk's codes.
constexpr size_t kCodeSlack = 16;

// x / s on the grid; a block without scale is all zeros, without their signs.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE void RoundByScale(const typename L::F* v, int n, const WireScale& s,
                                  typename L::U* q) {
  const typename L::F inverse = L::Splat(s.inverse);
  for (int i = 0; i < n; ++i) {
    if constexpr (IsMini(kScheme.grid)) {
      q[i] = s.value == 0 ? L::Zero()
                          : L::template ToMini<MiniOf(kScheme.grid)>(L::Mul(v[i], inverse));
    } else {
      q[i] = L::Round(L::Mul(v[i], inverse));
    }
  }
}

// v: [block] -> q: [block] as stored but for the clamp, which StoreCodes does.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE BlockFault QuantizeBlock(typename L::F* v, typename L::U* q, BlockSections out) {
  constexpr int n = kScheme.block / L::kWidth;
  if constexpr (kScheme.rotation == Rotation::kHadamard) L::template Hadamard<kScheme.block>(v);
  typename L::U top = L::Abs(v[0]);
  for (int i = 1; i < n; ++i) top = L::MaxBits(top, L::Abs(v[i]));
  const uint32_t max_bits = L::MaxAcross(top);
  if (max_bits >= kInfBits) return BlockFault::kNotFinite;
  if constexpr (kScheme.grid == Grid::kAffine) {
    typename L::F low = v[0], high = v[0];
    for (int i = 1; i < n; ++i) {
      low = L::Min(low, v[i]);
      high = L::Max(high, v[i]);
    }
    const float min = L::MinAcross(low), max = L::MaxFloatAcross(high);
    const uint16_t wire_z = AffineZero(min);
    const float z = Bf16ToF32(wire_z);
    if (AffineOverflows(min, max, z)) return BlockFault::kRange;
    const WireScale s = AffineScale(z, max, Levels(kScheme));
    const typename L::F zero = L::Splat(z), inverse = L::Splat(s.inverse);
    for (int i = 0; i < n; ++i) q[i] = L::Round(L::Mul(L::Sub(v[i], zero), inverse));
    __builtin_memcpy(out.zeros, &wire_z, 2);
    WriteScale(kScheme, s, out.scales);
  } else {
    const WireScale s = AbsMaxScale(kScheme, max_bits);
    RoundByScale<L, kScheme>(v, n, s, q);
    WriteScale(kScheme, s, out.scales);
  }
  return BlockFault::kNone;
}

// One group of small blocks, or one block up to kInRegisters.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE BlockFault EncodeGroup(const std::byte* x, BlockSections out) {
  constexpr int kElements = kScheme.block * kGroupBlocks<kScheme>;
  typename L::F v[kElements / L::kWidth];
  typename L::U q[kElements / L::kWidth];
  for (int i = 0; i < kElements / L::kWidth; ++i) {
    v[i] = L::template Load<DType::kF32>(x + i * L::kWidth * sizeof(float));
  }
  for (int b = 0; b < kGroupBlocks<kScheme>; ++b) {
    const int first = b * kScheme.block / L::kWidth;
    const BlockSections at = {out.scales + b * ScaleBytes(kScheme),
                              out.zeros + b * ZeroBytes(kScheme), nullptr};
    const BlockFault fault = QuantizeBlock<L, kScheme>(v + first, q + first, at);
    if (fault != BlockFault::kNone) return fault;
  }
  for (int c = 0; c < kElements / kChunk; ++c) {
    L::template StoreCodes<kScheme>(q + c * (kChunk / L::kWidth), out.codes + c * 8 * kScheme.bits);
  }
  return BlockFault::kNone;
}

// One block too large for the registers: the maximum first, then chunk by chunk.
template <class L, BlockScheme kScheme>
BlockFault EncodeLargeBlock(const std::byte* x, BlockSections out) {
  static_assert(kScheme.grid != Grid::kAffine && kScheme.rotation == Rotation::kNone);
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
  for (int c = 0; c < kScheme.block / kChunk; ++c) {
    typename L::F v[n];
    typename L::U q[n];
    for (int i = 0; i < n; ++i) v[i] = L::template Load<DType::kF32>(x + (c * n + i) * kStep);
    RoundByScale<L, kScheme>(v, n, s, q);
    L::template StoreCodes<kScheme>(q, out.codes + c * 8 * kScheme.bits);
  }
  return BlockFault::kNone;
}

// The block's codes -> x, chunk by chunk or, when it was rotated, all at once.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE bool DecodeBlock(ConstBlockSections in, std::byte* x) {
  float value_s, value_z = 0;
  if (!ReadScale(kScheme, in.scales, value_s)) return false;
  if constexpr (kScheme.grid == Grid::kAffine) {
    if (!ReadScale(kScheme, in.zeros, value_z)) return false;
  }
  const typename L::F s = L::Splat(value_s), z = L::Splat(value_z);
  constexpr bool kRotated = kScheme.rotation == Rotation::kHadamard;
  constexpr int n = kScheme.block / L::kWidth;
  constexpr size_t kStep = L::kWidth * sizeof(float);
  typename L::U top = L::Zero();  // largest code seen, where some are not numbers
  typename L::F v[kRotated ? n : 1];
  for (int i = 0; i < n; ++i) {
    const typename L::U code =
        L::template LoadCodes<kScheme.bits>(in.codes + i * L::kWidth * kScheme.bits / 8);
    typename L::F& value = v[kRotated ? i : 0];
    if constexpr (IsMini(kScheme.grid)) {
      value = L::Mul(L::template FromMini<MiniOf(kScheme.grid)>(code), s);
      if constexpr (kScheme.bits == 8) {
        top = L::MaxBits(top, L::template Magnitude<MiniOf(kScheme.grid)>(code));
      }
    } else {
      value = L::Mul(L::ToFloat(code, CodeOffset(kScheme)), s);
    }
    if constexpr (kScheme.grid == Grid::kAffine) value = L::Add(z, value);
    if constexpr (!kRotated) L::template Store<DType::kF32>(value, x + i * kStep);
  }
  if constexpr (kRotated) {
    L::template Hadamard<kScheme.block>(v);
    for (int i = 0; i < n; ++i) L::template Store<DType::kF32>(v[i], x + i * kStep);
  }
  if constexpr (IsMini(kScheme.grid) && kScheme.bits == 8) {
    return L::MaxAcross(top) <= FormatOf(MiniOf(kScheme.grid)).max_code;
  }
  return true;
}

// The last group goes through a buffer, because codes are stored and loaded in whole words.
template <class L, BlockScheme kScheme>
BlockFault EncodeBlocksOn(const std::byte* x, size_t blocks, BlockSections out) {
  constexpr size_t kPerGroup = kGroupBlocks<kScheme>;
  constexpr size_t kBytes = CodeBytes(kScheme) * kPerGroup;
  for (size_t b = 0; b < blocks; b += kPerGroup) {
    BlockFault fault = BlockFault::kNone;
    if constexpr (kScheme.block > kInRegisters) {
      fault = EncodeLargeBlock<L, kScheme>(x, out);
    } else if (blocks - b > kPerGroup) {
      fault = EncodeGroup<L, kScheme>(x, out);
    } else if (blocks - b == kPerGroup) {
      std::byte codes[kBytes + kCodeSlack];
      fault = EncodeGroup<L, kScheme>(x, {out.scales, out.zeros, codes});
      if (fault != BlockFault::kNone) return fault;
      __builtin_memcpy(out.codes, codes, kBytes);
    } else {
      return ScalarBlockKernels().encode[SchemeIndex(kScheme)](x, blocks - b, out);
    }
    if (fault != BlockFault::kNone) return fault;
    x += kPerGroup * kScheme.block * sizeof(float);
    out.scales += kPerGroup * ScaleBytes(kScheme);
    out.zeros += kPerGroup * ZeroBytes(kScheme);
    out.codes += kBytes;
  }
  return BlockFault::kNone;
}

template <class L, BlockScheme kScheme>
bool DecodeBlocksOn(ConstBlockSections in, size_t blocks, std::byte* x) {
  constexpr size_t kBytes = CodeBytes(kScheme);
  // Whole words of codes are read: the last blocks of a buffer end inside such a word.
  constexpr size_t kBuffered = kScheme.bits == 8 ? 0 : (kCodeSlack + kBytes - 1) / kBytes;
  for (size_t b = 0; b < blocks; ++b) {
    ConstBlockSections from = in;
    [[maybe_unused]] std::byte codes[kBuffered == 0 ? 1 : kBytes + kCodeSlack];
    if constexpr (kBuffered > 0) {
      if (blocks - b <= kBuffered) {
        __builtin_memcpy(codes, in.codes, kBytes);
        __builtin_memset(codes + kBytes, 0, kCodeSlack);
        from.codes = codes;
      }
    }
    if (!DecodeBlock<L, kScheme>(from, x)) return false;
    x += kScheme.block * sizeof(float);
    in.scales += ScaleBytes(kScheme);
    in.zeros += ZeroBytes(kScheme);
    in.codes += kBytes;
  }
  return true;
}

template <class L, size_t... kIndex>
constexpr BlockKernelTable MakeBlockKernels(std::index_sequence<kIndex...>) {
  return {{EncodeBlocksOn<L, kBlockSchemes[kIndex]>...},
          {DecodeBlocksOn<L, kBlockSchemes[kIndex]>...}};
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
