#pragma once

#include "compressors/kernels/lane_scales.h"
#include "compressors/kernels/loops.h"
#include "compressors/kernels/stat_units.h"

// The loops of statistical.cc, compiled per instruction set as loops.h says.
namespace longhaul {

// An element's code; it is added to its bin.
template <int kBits>
LONGHAUL_INLINE uint32_t StatCode(float x, float mu, float inverse, BinSums& sums) {
  const float position = StatPosition<kBits>(x, mu, inverse);
  const uint32_t bin = StatBin<kBits>(position);
  sums.units[bin] += StatUnits<kBits>(position, bin);
  ++sums.count[bin];
  return bin;
}

template <int kBits>
LONGHAUL_INLINE void StatCodes(const float* x, size_t n, float mu, float inverse, std::byte* codes,
                               BinSums& sums) {
  constexpr size_t kPerByte = 8 / kBits;
  for (size_t i = 0; i < n; i += kPerByte) {
    uint32_t byte = 0;
    for (size_t j = 0; j < kPerByte && i + j < n; ++j) {
      byte |= StatCode<kBits>(x[i + j], mu, inverse, sums) << (kBits * j);
    }
    codes[i / kPerByte] = static_cast<std::byte>(byte);
  }
}

template <class L>
void LoopStatCodes(const float* x, size_t n, float mu, float inverse, int bits, std::byte* codes,
                   BinSums& sums) {
  if (bits == 2) return StatCodes<2>(x, n, mu, inverse, codes, sums);
  if (bits == 4) return StatCodes<4>(x, n, mu, inverse, codes, sums);
  return StatCodes<8>(x, n, mu, inverse, codes, sums);
}

template <int kBits>
LONGHAUL_INLINE void StatOffsets(const BinSums& sums, float inverse, float* offsets) {
  const double width = 1.0 / static_cast<double>(inverse);
  for (int32_t b = 0; b < static_cast<int32_t>(StatGrid<kBits>::kBins); ++b) {
    offsets[b] = StatOffset<kBits>(b, sums.units[b], sums.count[b], width);
  }
}

template <class L>
void LoopStatOffsets(const BinSums& sums, float inverse, int bits, float* offsets) {
  if (bits == 2) return StatOffsets<2>(sums, inverse, offsets);
  if (bits == 4) return StatOffsets<4>(sums, inverse, offsets);
  return StatOffsets<8>(sums, inverse, offsets);
}

// Codes whose values fit into vectors. Answers how many are done; the last ones are left, because
// kCodeSlack bytes are read beyond.
template <class L, int kBits>
LONGHAUL_INLINE size_t LookUpCodes(const std::byte* codes, size_t n, const float* table, float* x) {
  alignas(64) float entries[16];
  for (size_t b = 0; b < 16; ++b) entries[b] = table[b % (size_t{1} << kBits)];
  const typename L::Entries lookup(entries);
  const size_t bytes = n * kBits / 8;
  size_t i = 0;
  for (; i * kBits / 8 + L::kWidth * kBits / 8 + kCodeSlack <= bytes; i += L::kWidth) {
    L::template Store<DType::kF32>(lookup.Of(L::template LoadCodes<kBits>(codes + i * kBits / 8)),
                                   reinterpret_cast<std::byte*>(x + i));
  }
  return i;
}

// The same of eight bits.
template <class L>
LONGHAUL_INLINE size_t LookUpBytes(const std::byte* codes, size_t n, const float* table, float* x) {
  using Entries = typename L::ByteEntries;
  if (n < Entries::kAtOnce) return 0;
  const Entries lookup(table);
  size_t i = 0;
  for (; i + Entries::kAtOnce <= n; i += Entries::kAtOnce) lookup.LookUp(codes + i, x + i);
  return i;
}

template <class L>
void LoopTableValues(const std::byte* codes, int bits, size_t n, const float* table, float* x) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    if (bits == 2) i = LookUpCodes<L, 2>(codes, n, table, x);
    if (bits == 4) i = LookUpCodes<L, 4>(codes, n, table, x);
  }
  if constexpr (requires { typename L::ByteEntries; }) {
    if (bits == 8) i = LookUpBytes<L>(codes, n, table, x);
  }
  const auto b = static_cast<size_t>(bits);
  if (bits == 8) {
    for (; i + 8 <= n; i += 8) {
      uint64_t eight;
      __builtin_memcpy(&eight, codes + i, 8);
      for (size_t j = 0; j < 8; ++j) {  // as integers: twice as many of these can be stored at once
        const uint32_t value = BitsOf(table[eight >> (8 * j) & 0xFF]);
        __builtin_memcpy(x + i + j, &value, 4);
      }
    }
  }
  for (; i < n; ++i) {
    const auto byte = static_cast<size_t>(codes[i * b / 8]);
    x[i] = table[byte >> (i * b % 8) & ((size_t{1} << b) - 1)];
  }
}

}  // namespace longhaul
