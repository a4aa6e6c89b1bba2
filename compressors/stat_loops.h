#pragma once

#include "compressors/block_scheme.h"
#include "compressors/lane_scales.h"
#include "compressors/loops.h"

// The loops of statistical.cc, compiled per instruction set as loops.h says.
namespace longhaul {

// Every bin of four has a vector, one lane per turn; what belongs elsewhere adds 0. n: a multiple
// of 4, at most 4096.
template <class L>
LONGHAUL_INLINE void AddToFourBins(const uint8_t* q, const float* x, float mu, size_t n,
                                   BinSlot* slots) {
  double totals[4][4];
  for (size_t b = 0; b < 4; ++b) {
    for (size_t t = 0; t < 4; ++t) totals[b][t] = slots[4 * b + t][0];
  }
  typename L::D s0 = L::LoadDoubles(totals[0]), s1 = L::LoadDoubles(totals[1]);
  typename L::D s2 = L::LoadDoubles(totals[2]), s3 = L::LoadDoubles(totals[3]);
  for (size_t i = 0; i < n; i += 4) {
    const typename L::D off = L::DoublesOff(x + i, mu);
    s0 = L::AddWhere(s0, off, q + i, 0);
    s1 = L::AddWhere(s1, off, q + i, 1);
    s2 = L::AddWhere(s2, off, q + i, 2);
    s3 = L::AddWhere(s3, off, q + i, 3);
  }
  L::StoreDoubles(s0, totals[0]);
  L::StoreDoubles(s1, totals[1]);
  L::StoreDoubles(s2, totals[2]);
  L::StoreDoubles(s3, totals[3]);
  const size_t whole = n - n % 32;
  size_t counts[4] = {0, 0, 0, whole};
  for (uint8_t b = 0; b < 3; ++b) {
    counts[b] = L::CountBytes(q, whole, b);
    counts[3] -= counts[b];
  }
  for (size_t i = whole; i < n; ++i) ++counts[q[i]];
  for (size_t b = 0; b < 4; ++b) {
    for (size_t t = 0; t < 4; ++t) slots[4 * b + t][0] = totals[b][t];
    slots[4 * b][1] += static_cast<double>(counts[b]);
  }
}

// One addition of two doubles per element: a slot's total and its count.
template <class L>
void LoopAddToBins(const uint8_t* q, const float* x, float mu, size_t n, size_t bins,
                   BinSlot* slots) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    if (bins == 4) {
      i = n - n % 4;
      AddToFourBins<L>(q, x, mu, i, slots);
    }
  }
  constexpr size_t kPiece = 256;
  for (; i < n; i += kPiece) {
    const size_t c = n - i < kPiece ? n - i : kPiece, whole = c - c % 4;
    double off[kPiece];
    for (size_t j = 0; j < c; ++j) off[j] = x[i + j] - mu;
    for (size_t j = 0; j < whole; j += 4) {
      uint32_t word;  // read once: the compiler must think that bytes change with every sum
      __builtin_memcpy(&word, q + i + j, 4);
      for (size_t t = 0; t < 4; ++t) {
        slots[4 * size_t{word >> (8 * t) & 0xFF} + t] += BinSlot{off[j + t], 1.0};
      }
    }
    for (size_t j = whole; j < c; ++j) {
      slots[4 * size_t{q[i + j]} + j % 4] += BinSlot{off[j], 1.0};
    }
  }
}

template <class L>
void LoopBinMeans(const BinSlot* slots, size_t bins, float* means) {
  double totals[256], counts[256];
  for (size_t b = 0; b < bins; ++b) {
    const BinSlot sum = slots[4 * b] + slots[4 * b + 1] + slots[4 * b + 2] + slots[4 * b + 3];
    totals[b] = sum[0];
    counts[b] = sum[1] == 0 ? 1.0 : sum[1];  // an empty bin has the total 0
  }
  for (size_t b = 0; b < bins; ++b) means[b] = static_cast<float>(totals[b] / counts[b]);
}

// As stat_codes.h.
template <class L, int kBits>
LONGHAUL_INLINE size_t CodesOf(const float* x, size_t n, float mu, float inverse, uint8_t* q,
                               std::byte* packed) {
  using F = typename L::F;
  constexpr size_t kCodes = 64, kBytes = kCodes * kBits / 8;
  const F middle = L::Splat(1 << (kBits - 1)), top = L::Splat((1 << kBits) - 1);
  size_t i = 0;
  for (; i + kCodes <= n; i += kCodes) {
    typename L::U codes[kCodes / L::kWidth];
    for (size_t j = 0; j < kCodes; j += L::kWidth) {
      const auto* at = reinterpret_cast<const std::byte*>(x + i + j);
      if (j % 16 == 0) PrefetchNextChunk(at);
      const F off = L::Sub(L::template Load<DType::kF32>(at), L::Splat(mu));
      const F bin = L::Add(L::Mul(off, L::Splat(inverse)), middle);
      codes[j / L::kWidth] = L::Round(L::Min(L::Max(bin, L::Splat(0)), top));
    }
    L::template StoreCodes<BlockScheme{8, Grid::kAffine}>(codes,
                                                          reinterpret_cast<std::byte*>(q + i));
    if constexpr (kBits == 8) {
      __builtin_memcpy(packed + i, q + i, kCodes);
    } else if constexpr (kBits == 4) {
      L::template StoreCodes<BlockScheme{kBits, Grid::kAffine}>(codes, packed + i * kBits / 8);
    } else {  // overruns
      std::byte whole[kBytes + kCodeSlack];
      L::template StoreCodes<BlockScheme{kBits, Grid::kAffine}>(codes, whole);
      __builtin_memcpy(packed + i * kBits / 8, whole, kBytes);
    }
  }
  return i;
}

template <class L>
size_t LoopStatCodes(const float* x, size_t n, float mu, float inverse, int bits, uint8_t* q,
                     std::byte* packed) {
  if (bits == 2) return CodesOf<L, 2>(x, n, mu, inverse, q, packed);
  if (bits == 4) return CodesOf<L, 4>(x, n, mu, inverse, q, packed);
  return CodesOf<L, 8>(x, n, mu, inverse, q, packed);
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

template <class L>
void LoopTableValues(const std::byte* codes, int bits, size_t n, const float* table, float* x) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    if (bits == 2) i = LookUpCodes<L, 2>(codes, n, table, x);
    if (bits == 4) i = LookUpCodes<L, 4>(codes, n, table, x);
  }
  const auto b = static_cast<size_t>(bits);
  if (bits == 8) {
    for (; i + 8 <= n; i += 8) {
      for (size_t j = i; j < i + 8; ++j) x[j] = table[static_cast<uint8_t>(codes[j])];
    }
  }
  for (; i < n; ++i) {
    const auto byte = static_cast<size_t>(codes[i * b / 8]);
    x[i] = table[byte >> (i * b % 8) & ((size_t{1} << b) - 1)];
  }
}

}  // namespace longhaul
