#pragma once

#include "compressors/kernels/prefetch.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/numbers/tree_sum.h"
#include "compressors/tensor.h"

// The sums of kernels.h in the order of tree_sum.h, over lanes as loops.h says.
namespace longhaul {

// Terms of the sums below, of one element or of a vector of them; L's F is float for one lane.
struct PlainTerm {
  LONGHAUL_INLINE float operator()(float x) const { return x; }
  template <class L>
  LONGHAUL_INLINE typename L::F Of(typename L::F x) const {
    return x;
  }
};
struct AbsTerm {
  LONGHAUL_INLINE float operator()(float x) const { return FromBits(BitsOf(x) & kAbsMask); }
  template <class L>
  LONGHAUL_INLINE typename L::F Of(typename L::F x) const {
    return L::FromBits(L::Abs(x));
  }
};
struct AwayTerm {
  LONGHAUL_INLINE float operator()(float x) const { return x - pivot; }
  template <class L>
  LONGHAUL_INLINE typename L::F Of(typename L::F x) const {
    return L::Sub(x, L::Splat(pivot));
  }
  float pivot;
};
struct SquareTerm {
  LONGHAUL_INLINE float operator()(float x) const { return (x - mu) * (x - mu); }
  template <class L>
  LONGHAUL_INLINE typename L::F Of(typename L::F x) const {
    const typename L::F d = L::Sub(x, L::Splat(mu));
    return L::Mul(d, d);
  }
  float mu;
};

// The lanes of ChunkSum: lane j of the 32 stands in vector j / kWidth.
template <class L>
struct RunningLanes {
  static constexpr size_t kVectors = kSumLanes / L::kWidth;
  LONGHAUL_INLINE RunningLanes() {
    for (size_t k = 0; k < kVectors; ++k) sum[k] = L::Splat(0.0f);
  }
  LONGHAUL_INLINE void Add(size_t k, typename L::F term) { sum[k] = L::Add(sum[k], term); }
  // Of terms that fill the lanes evenly.
  LONGHAUL_INLINE float Total() const {
    typename L::F half[kVectors];
    for (size_t k = 0; k < kVectors; ++k) half[k] = sum[k];
    for (size_t h = kVectors / 2; h > 0; h /= 2) {
      for (size_t k = 0; k < h; ++k) half[k] = L::Add(half[k], half[k + h]);
    }
    return L::AddAcross(half[0]);
  }
  // With the terms of `rest` [c], c < kSumLanes.
  template <class Term>
  LONGHAUL_INLINE float Total(const float* rest, size_t c, Term term) const {
    if (c == 0) return Total();
    alignas(64) float lane[kSumLanes];
    for (size_t k = 0; k < kVectors; ++k) {
      L::template Store<DType::kF32>(sum[k], reinterpret_cast<std::byte*>(lane + k * L::kWidth));
    }
    for (size_t j = 0; j < c; ++j) lane[j] += term(rest[j]);
    for (size_t h = kSumLanes / 2; h > 0; h /= 2) {
      for (size_t j = 0; j < h; ++j) lane[j] += lane[j + h];
    }
    return lane[0];
  }
  typename L::F sum[kVectors];
};

// As ChunkSum.
template <class L, class Term>
LONGHAUL_INLINE float LaneSum(const float* x, size_t c, Term term) {
  if constexpr (L::kWidth == 1) {
    return ChunkSum(
        c, [ x, term ](size_t i) __attribute__((always_inline)) { return term(x[i]); });
  } else {
    RunningLanes<L> lanes;
    size_t i = 0;
    for (; i + kSumLanes <= c; i += kSumLanes) {
      for (size_t k = 0; k < kSumLanes / L::kWidth; ++k) {
        const auto* at = reinterpret_cast<const std::byte*>(x + i + k * L::kWidth);
        if (k * L::kWidth % 16 == 0) PrefetchNextPage(at);
        lanes.Add(k, term.template Of<L>(L::template Load<DType::kF32>(at)));
      }
    }
    return lanes.Total(x + i, c - i, term);
  }
}

template <class L>
float LoopSum(const float* x, size_t n) {
  return LaneSum<L>(x, n, PlainTerm());
}
template <class L>
LONGHAUL_INLINE float LoopSumAbs(const float* x, size_t n) {
  return LaneSum<L>(x, n, AbsTerm());
}
template <class L>
float LoopSumSquares(const float* x, size_t n, float mu) {
  return LaneSum<L>(x, n, SquareTerm{mu});
}

template <class L>
PivotSums LoopSumsAbout(const float* x, size_t n, float pivot) {
  const AwayTerm away = {pivot};
  const SquareTerm square = {pivot};
  if constexpr (L::kWidth == 1) {
    return {LaneSum<L>(x, n, away), LaneSum<L>(x, n, square)};
  } else {
    RunningLanes<L> sums, squares;
    size_t i = 0;
    for (; i + kSumLanes <= n; i += kSumLanes) {
      for (size_t k = 0; k < kSumLanes / L::kWidth; ++k) {
        const float* at = x + i + k * L::kWidth;
        if (k * L::kWidth % 16 == 0) PrefetchNextPage(at);
        const typename L::F d = away.template Of<L>(
            L::template Load<DType::kF32>(reinterpret_cast<const std::byte*>(at)));
        sums.Add(k, d);
        squares.Add(k, L::Mul(d, d));
      }
    }
    return {sums.Total(x + i, n - i, away), squares.Total(x + i, n - i, square)};
  }
}

}  // namespace longhaul
