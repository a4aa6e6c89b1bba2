#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "compressors/kernels/lane_encode.h"
#include "compressors/kernels/lane_fp4.h"
#include "compressors/kernels/make_kernels.h"

// The vector kernels, written once over a type L of lanes (avx2/lanes.h, avx512/lanes.h), so the
// two instruction sets cannot drift apart. Included only by the files that are compiled for them:
// every function below is a template on L, so no copy can reach another instruction set.
// What is asked of L is in lanes.h.
namespace longhaul {

// Whether no code is beyond the largest of a format of eight bits.
template <class L, MiniFloat kType>
LONGHAUL_INLINE bool AllNumbers(const std::byte* codes, size_t n) {
  uint8_t top = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto magnitude = static_cast<uint8_t>(static_cast<uint8_t>(codes[i]) & 0x7F);
    top = magnitude > top ? magnitude : top;
  }
  return top <= FormatOf(kType).max_code;
}

// What each code of four bits counts in a rotated block (block_scheme.h).
struct CodeSteps {
  int8_t of[16];
};
constexpr CodeSteps StepsOfCodes(BlockScheme scheme) {
  if (scheme.grid == Grid::kE2M1) {
    return {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};
  }
  CodeSteps steps = {};
  for (int code = 0; code < 16; ++code) {
    steps.of[code] = static_cast<int8_t>(code - CodeOffset(scheme));
  }
  return steps;
}

// A rotated block's codes -> x.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE void DecodeRotated(const std::byte* codes, float s, float z, std::byte* x) {
  static_assert(kScheme.bits == 4);
  constexpr int n = kScheme.block / L::kWidth, kPart = 32 / L::kWidth;
  static constexpr CodeSteps kSteps = StepsOfCodes(kScheme);
  typename L::U sums[n];
  for (int i = 0; i < n / kPart; ++i) {
    L::HadamardOf32(codes + 16 * i, kSteps.of, sums + i * kPart);
  }
  if constexpr (kScheme.block == 64) {
    for (int i = 0; i < kPart; ++i) {
      const typename L::U a = sums[i], b = sums[i + kPart];
      sums[i] = L::AddBits(a, b);
      sums[i + kPart] = L::SubBits(a, b);
    }
  }
  constexpr float kStep = UnrotatedStep(kScheme);
  for (int i = 0; i < n; ++i) {
    const typename L::F sum = L::ToFloat(sums[i], 0);
    const typename L::F v = IsPowerOfTwo(kStep) ? L::Mul(sum, L::Splat(kStep * s))  // both exact
                                                : L::Mul(L::Mul(sum, L::Splat(kStep)), L::Splat(s));
    L::template Store<DType::kF32>(v, x + i * L::kWidth * sizeof(float));
  }
  if constexpr (kScheme.grid == Grid::kAffine) {
    float first;
    __builtin_memcpy(&first, x, sizeof(first));
    first += z / HadamardNorm(kScheme.block);
    __builtin_memcpy(x, &first, sizeof(first));
  }
}

// The block's codes -> x. Codes of eight bits are known to be numbers.
template <class L, BlockScheme kScheme>
LONGHAUL_INLINE bool DecodeBlock(ConstBlockSections in, std::byte* x) {
  float value_s, value_z = 0;
  if (!ReadScale(kScheme, in.scales, value_s)) return false;
  if constexpr (kScheme.grid == Grid::kAffine) {
    if (!ReadScale(kScheme, in.zeros, value_z)) return false;
  }
  if constexpr (kScheme.rotation == Rotation::kHadamard) {
    DecodeRotated<L, kScheme>(in.codes, value_s, value_z, x);
    return true;
  }
  const typename L::F s = L::Splat(value_s), z = L::Splat(value_z);
  constexpr size_t kStep = L::kWidth * sizeof(float);
  for (int i = 0; i < kScheme.block / L::kWidth; ++i) {
    const std::byte* codes = in.codes + i * L::kWidth * kScheme.bits / 8;
    typename L::F value;
    if constexpr (IsMini(kScheme.grid) && kScheme.bits == 8) {
      value = L::Mul(L::template LoadMini<MiniOf(kScheme.grid)>(codes), s);
    } else if constexpr (IsMini(kScheme.grid)) {
      const typename L::U code = L::template LoadCodes<kScheme.bits>(codes);
      static constexpr FourBitValues kValues = ValuesOf(MiniOf(kScheme.grid));
      value = L::Mul(typename L::Entries(kValues.of).Of(code), s);
    } else {
      const typename L::U code = L::template LoadCodes<kScheme.bits>(codes);
      value = L::Mul(L::ToFloat(code, CodeOffset(kScheme)), s);
    }
    if constexpr (kScheme.grid == Grid::kAffine) value = L::Add(z, value);
    L::template Store<DType::kF32>(value, x + i * kStep);
  }
  return true;
}

template <class L, BlockScheme kScheme>
bool DecodeBlocksOn(ConstBlockSections in, size_t blocks, std::byte* x) {
  constexpr size_t kBytes = CodeBytes(kScheme);
  // Whole words of codes are read: the last blocks of a buffer end inside such a word.
  constexpr size_t kBuffered = kScheme.bits == 8 ? 0 : (kCodeSlack + kBytes - 1) / kBytes;
  if constexpr (IsMini(kScheme.grid) && kScheme.bits == 8) {
    if (!AllNumbers<L, MiniOf(kScheme.grid)>(in.codes, blocks * kBytes)) return false;
  }
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

template <class L, BlockScheme kScheme>
constexpr EncodeNoisyBlocksFn NoisyKernel() {
  if constexpr (IsMini(kScheme.grid) && kScheme.grid != Grid::kE2M1) {
    return nullptr;
  } else {
    return EncodeNoisyBlocksOn<L, kScheme>;
  }
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
  if (whole != n) {
    finite &=
        scalar::Table().Converter(kFrom, kTo)(in + whole * kIn, n - whole, out + whole * kOut);
  }
  return finite;
}

// The table of one instruction set.
template <class L, size_t... kScheme, size_t... kTypes>
constexpr Kernels MakeLaneKernels(std::index_sequence<kScheme...>, std::index_sequence<kTypes...>) {
  Kernels k = MakeLoops<L>();
  ((k.convert[kTypes / 3][kTypes % 3] = ConvertOn<L, DType{kTypes / 3}, DType{kTypes % 3}>), ...);
  ((k.encode_blocks[kScheme] = EncodeBlocksOn<L, kBlockSchemes[kScheme]>), ...);
  ((k.decode_blocks[kScheme] = DecodeBlocksOn<L, kBlockSchemes[kScheme]>), ...);
  ((k.encode_noisy_blocks[kScheme] = NoisyKernel<L, kBlockSchemes[kScheme]>()), ...);
  k.encode_nv = EncodeNvOn<L>;
  k.decode_nv = DecodeNvOn<L>;
  return k;
}

}  // namespace longhaul
