#pragma once

#include "compressors/loops.h"

// The loops of statistical.cc, compiled per instruction set as loops.h says.
namespace longhaul {

// counts[b] += how often b stands in q, for four bins; n <= 32 * 255.
template <class L>
LONGHAUL_INLINE void CountFourBins(const uint8_t* q, size_t n, uint64_t* counts) {
  uint8_t lane[4][32] = {};
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (size_t b = 0; b < 4; ++b) {
      for (size_t j = 0; j < 32; ++j) {
        lane[b][j] = static_cast<uint8_t>(lane[b][j] + (q[i + j] == b ? 1 : 0));
      }
    }
  }
  for (; i < n; ++i) ++counts[q[i]];
  for (size_t b = 0; b < 4; ++b) {
    for (size_t j = 0; j < 32; ++j) counts[b] += lane[b][j];
  }
}

template <class L>
void LoopAddToBins(const uint8_t* q, const float* x, float mu, size_t n, size_t bins,
                   double* totals, uint64_t* counts) {
  size_t i = 0;
  if constexpr (L::kWidth > 1) {
    if (bins == 4) {  // every bin has a vector; what belongs elsewhere adds 0
      typename L::D sum[4];
      for (size_t b = 0; b < 4; ++b) sum[b] = L::LoadDoubles(totals + 4 * b);
      for (; i + 4 <= n; i += 4) {
        const typename L::D off = L::DoublesOff(x + i, mu);
        for (size_t b = 0; b < 4; ++b) sum[b] = L::AddWhere(sum[b], off, q + i, b);
      }
      for (size_t b = 0; b < 4; ++b) L::StoreDoubles(sum[b], totals + 4 * b);
      CountFourBins<L>(q, i, counts);
    }
  }
  constexpr size_t kPiece = 256;
  uint32_t count[4][256] = {};
  for (; i < n; i += kPiece) {
    const size_t c = n - i < kPiece ? n - i : kPiece, whole = c - c % 4;
    double off[kPiece];
    for (size_t j = 0; j < c; ++j) off[j] = x[i + j] - mu;
    for (size_t j = 0; j < whole; j += 4) {
      for (size_t t = 0; t < 4; ++t) {
        totals[4 * q[i + j + t] + t] += off[j + t];
        ++count[t][q[i + j + t]];
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
    for (; i < n; ++i) x[i] = table[static_cast<uint8_t>(codes[i])];
  }
  for (; i < n; ++i) {
    const auto byte = static_cast<size_t>(codes[i * b / 8]);
    x[i] = table[byte >> (i * b % 8) & ((size_t{1} << b) - 1)];
  }
}

}  // namespace longhaul
