#pragma once

#include "compressors/block_scheme.h"
#include "compressors/lane_scales.h"
#include "compressors/loops.h"
#include "compressors/stat_units.h"

// How an element gets its code and joins its bin (stat_units.h): one by one, and in ways of its own
// for four bins and for many over lanes. Units are whole numbers, so all give the same sums.
namespace longhaul {

// An element's code; it joins its bin.
template <int kBits>
LONGHAUL_INLINE uint32_t StatCode(float x, float mu, float inverse, BinSums& sums) {
  constexpr float kTop = (1 << kBits) - 1, kMiddle = 1 << (kBits - 1);
  const float at = (x - mu) * inverse;
  const float low = at + kMiddle < 0 ? 0.0f : at + kMiddle;
  const auto q = static_cast<uint32_t>(RoundToInt(low > kTop ? kTop : low));
  sums.units[q] += RoundToUnits(at);
  ++sums.count[q];
  return q;
}

template <int kBits>
LONGHAUL_INLINE void PlainStatCodes(const float* x, size_t n, float mu, float inverse,
                                    std::byte* codes, BinSums& sums) {
  constexpr size_t kPerByte = 8 / kBits;
  for (size_t i = 0; i < n; i += kPerByte) {
    uint32_t byte = 0;
    for (size_t j = 0; j < kPerByte && i + j < n; ++j) {
      byte |= StatCode<kBits>(x[i + j], mu, inverse, sums) << (kBits * j);
    }
    codes[i / kPerByte] = static_cast<std::byte>(byte);
  }
}

// 64 elements: their codes and, if all are near, their units as 32-bit integers.
template <class L, int kBits>
struct StatGroup {
  static constexpr size_t kVectors = kChunk / L::kWidth;

  // False: some element is as far away as this, in units.
  LONGHAUL_INLINE bool Load(const float* x, float mu, float inverse, float far) {
    using F = typename L::F;
    const F middle = L::Splat(1 << (kBits - 1)), top = L::Splat((1 << kBits) - 1);
    typename L::U farthest = L::Zero();
    for (size_t k = 0; k < kVectors; ++k) {
      const auto* bytes = reinterpret_cast<const std::byte*>(x + k * L::kWidth);
      if (k * L::kWidth % 16 == 0) PrefetchNextChunkNear(bytes);
      const F at =
          L::Mul(L::Sub(L::template Load<DType::kF32>(bytes), L::Splat(mu)), L::Splat(inverse));
      const F scaled = L::Mul(at, L::Splat(kUnitsPerBin));
      code[k] = L::Round(L::Min(L::Max(L::Add(at, middle), L::Splat(0)), top));
      units[k] = L::Round(scaled);
      farthest = L::MaxBits(farthest, L::Abs(scaled));
    }
    return L::MaxAcross(farthest) < BitsOf(far);
  }
  template <int kPacked>
  LONGHAUL_INLINE void Store(std::byte* out) const {
    L::template StoreCodes<BlockScheme{kPacked, Grid::kAffine}>(code, out);
  }

  typename L::U code[kVectors], units[kVectors];
};

// Four bins: each of three has a vector to which other bins' elements add 0, and what is left of
// the sum of all belongs to the first. Counts are those of bits.
template <class L>
LONGHAUL_INLINE size_t CodesOfFourBins(const float* x, size_t n, float mu, float inverse,
                                       std::byte* codes, BinSums& sums) {
  using U = typename L::U;
  constexpr uint64_t kLowBits = 0x5555555555555555;
  constexpr size_t kPiece = 1024;       // 128 additions to each of 8 lanes,
  constexpr float kFarUnits = 0x1p23f;  // which have place for as many of these
  size_t i = 0;
  while (i + kChunk <= n) {
    U total[4] = {L::Zero(), L::Zero(), L::Zero(), L::Zero()};
    uint64_t low = 0, high = 0, both = 0, seen = 0;
    const size_t end = i + kPiece < n ? i + kPiece : n;
    for (; i + kChunk <= end; i += kChunk) {
      StatGroup<L, 2> group;
      if (!group.Load(x + i, mu, inverse, kFarUnits)) {
        PlainStatCodes<2>(x + i, kChunk, mu, inverse, codes + i / 4, sums);
        continue;
      }
      for (size_t k = 0; k < group.kVectors; ++k) {
        total[0] = L::AddBits(total[0], group.units[k]);
        for (uint32_t b = 1; b < 4; ++b) {
          total[b] = L::AddWhereEqual(total[b], group.units[k], group.code[k], L::SplatBits(b));
        }
      }
      std::byte packed[kChunk / 4 + kCodeSlack];
      group.template Store<2>(packed);
      __builtin_memcpy(codes + i / 4, packed, kChunk / 4);
      uint64_t word[2];
      __builtin_memcpy(word, packed, sizeof(word));
      const uint64_t l = (word[0] & kLowBits) | (word[1] & kLowBits) << 1;
      const uint64_t h = (word[0] >> 1 & kLowBits) | (word[1] & ~kLowBits);
      low += static_cast<uint64_t>(__builtin_popcountll(l));
      high += static_cast<uint64_t>(__builtin_popcountll(h));
      both += static_cast<uint64_t>(__builtin_popcountll(l & h));
      seen += kChunk;
    }
    int64_t units[4] = {};
    for (size_t b = 0; b < 4; ++b) {
      alignas(64) int32_t lane[L::kWidth];
      L::template Store<DType::kF32>(L::FromBits(total[b]), reinterpret_cast<std::byte*>(lane));
      for (size_t j = 0; j < L::kWidth; ++j) units[b] += lane[j];
      sums.units[b] += units[b];
    }
    sums.units[0] -= units[1] + units[2] + units[3];
    sums.count[0] += seen - low - high + both;
    sums.count[1] += low - both;
    sums.count[2] += high - both;
    sums.count[3] += both;
  }
  return i;
}

// Many bins: one addition per element, to one of eight words of its bin, which take turns so that
// neighbours in one bin do not wait for each other. A word holds a count above a sum of units that
// are made positive, and has place for kSumChunk of both.
template <class L, int kBits>
LONGHAUL_INLINE size_t CodesOfManyBins(const float* x, size_t n, float mu, float inverse,
                                       std::byte* codes, BinSums& sums) {
  constexpr size_t kBins = size_t{1} << kBits;
  constexpr size_t kTurns = 8;
  constexpr int kCountAt = 44;
  constexpr uint64_t kPositive = uint64_t{1} << 31;
  constexpr float kFarUnits = 0x1p30f;
  alignas(64) uint64_t words[kTurns * kBins] = {};
  size_t i = 0;
  for (; i + kChunk <= n; i += kChunk) {
    StatGroup<L, kBits> group;
    if (!group.Load(x + i, mu, inverse, kFarUnits)) {
      PlainStatCodes<kBits>(x + i, kChunk, mu, inverse, codes + i * kBits / 8, sums);
      continue;
    }
    alignas(64) int32_t units[kChunk];
    for (size_t k = 0; k < group.kVectors; ++k) {
      L::template Store<DType::kF32>(L::FromBits(group.units[k]),
                                     reinterpret_cast<std::byte*>(units + k * L::kWidth));
    }
    std::byte q[kChunk];
    group.template Store<8>(q);
    if constexpr (kBits == 8) {
      __builtin_memcpy(codes + i, q, kChunk);
    } else {
      group.template Store<kBits>(codes + i * kBits / 8);
    }
    for (size_t j = 0; j < kChunk; j += kTurns) {
      uint64_t
          codes_of_turn;  // read once: the compiler must think that bytes change with every sum
      __builtin_memcpy(&codes_of_turn, q + j, kTurns);
      for (size_t t = 0; t < kTurns; ++t) {
        words[t * kBins + (codes_of_turn >> (8 * t) & 0xFF)] +=
            static_cast<uint64_t>(int64_t{units[j + t]}) + kPositive + (uint64_t{1} << kCountAt);
      }
    }
  }
  for (size_t b = 0; b < kBins; ++b) {
    uint64_t word = 0;
    for (size_t t = 0; t < kTurns; ++t) word += words[t * kBins + b];
    const uint64_t count = word >> kCountAt;
    const uint64_t units = (word & ((uint64_t{1} << kCountAt) - 1)) - count * kPositive;
    sums.units[b] += static_cast<int64_t>(units);
    sums.count[b] += count;
  }
  return i;
}

}  // namespace longhaul
