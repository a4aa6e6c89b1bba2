#pragma once

#include "compressors/block_scheme.h"
#include "compressors/loops.h"

// The loops of statistical.cc, compiled per instruction set as loops.h says.
namespace longhaul {

// Every bin of four has a vector, one lane per turn; what belongs elsewhere adds 0. n: a multiple
// of 4, at most 4096.
template <class L>
LONGHAUL_INLINE void AddToFourBins(const uint8_t* q, const float* x, float mu, size_t n,
                                   double* totals, uint64_t* counts) {
  typename L::D s0 = L::LoadDoubles(totals), s1 = L::LoadDoubles(totals + 4);
  typename L::D s2 = L::LoadDoubles(totals + 8), s3 = L::LoadDoubles(totals + 12);
  for (size_t i = 0; i < n; i += 4) {
    const typename L::D off = L::DoublesOff(x + i, mu);
    s0 = L::AddWhere(s0, off, q + i, 0);
    s1 = L::AddWhere(s1, off, q + i, 1);
    s2 = L::AddWhere(s2, off, q + i, 2);
    s3 = L::AddWhere(s3, off, q + i, 3);
  }
  L::StoreDoubles(s0, totals);
  L::StoreDoubles(s1, totals + 4);
  L::StoreDoubles(s2, totals + 8);
  L::StoreDoubles(s3, totals + 12);
  const size_t whole = n - n % 32;
  size_t others = 0;
  for (uint8_t b = 0; b < 3; ++b) {
    const size_t count = L::CountBytes(q, whole, b);
    counts[b] += count;
    others += count;
  }
  counts[3] += whole - others;
  for (size_t i = whole; i < n; ++i) ++counts[q[i]];
}

template <class L>
void LoopAddToBins(const uint8_t* q, const float* x, float mu, size_t n, size_t bins,
                   double* totals, uint64_t* counts) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    if (bins == 4) {
      i = n - n % 4;
      AddToFourBins<L>(q, x, mu, i, totals, counts);
    }
  }
  if (i == n) return;
  constexpr size_t kPiece = 256;
  uint32_t count[4][256] = {};
  for (; i < n; i += kPiece) {
    const size_t c = n - i < kPiece ? n - i : kPiece, whole = c - c % 4;
    double off[kPiece];
    for (size_t j = 0; j < c; ++j) off[j] = x[i + j] - mu;
    for (size_t j = 0; j < whole; j += 4) {
      uint32_t word;  // read once: the compiler must think that bytes change with every sum
      __builtin_memcpy(&word, q + i + j, 4);
      for (size_t t = 0; t < 4; ++t) {
        const size_t b = word >> (8 * t) & 0xFF;
        totals[4 * b + t] += off[j + t];
        ++count[t][b];
      }
    }
    for (size_t j = whole; j < c; ++j) {
      totals[4 * q[i + j] + j % 4] += off[j];
      ++count[0][q[i + j]];
    }
  }
  for (size_t b = 0; b < bins; ++b) {
    counts[b] += uint64_t{count[0][b]} + count[1][b] + count[2][b] + count[3][b];
  }
}

// As stat_codes.h.
template <class L, int kBits>
LONGHAUL_INLINE size_t CodesOf(const float* x, size_t n, float mu, float inverse, uint8_t* q,
                               std::byte* packed) {
  using F = typename L::F;
  constexpr size_t kCodes = 64, kOverrun = kBits == 2 ? kCodes : 0;  // of StoreCodes
  const F middle = L::Splat(1 << (kBits - 1)), top = L::Splat((1 << kBits) - 1);
  size_t i = 0;
  for (; i + kCodes + kOverrun <= n; i += kCodes) {
    typename L::U codes[kCodes / L::kWidth];
    for (size_t j = 0; j < kCodes; j += L::kWidth) {
      const auto* at = reinterpret_cast<const std::byte*>(x + i + j);
      if (j % 16 == 0) PrefetchBehind(at);
      const F off = L::Sub(L::template Load<DType::kF32>(at), L::Splat(mu));
      const F bin = L::Add(L::Mul(off, L::Splat(inverse)), middle);
      codes[j / L::kWidth] = L::Round(L::Min(L::Max(bin, L::Splat(0)), top));
    }
    L::template StoreCodes<BlockScheme{8, Grid::kAffine}>(codes,
                                                          reinterpret_cast<std::byte*>(q + i));
    if constexpr (kBits == 8) {
      __builtin_memcpy(packed + i, q + i, kCodes);
    } else {
      L::template StoreCodes<BlockScheme{kBits, Grid::kAffine}>(codes, packed + i * kBits / 8);
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
  constexpr size_t kCodeSlack = 16;
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
