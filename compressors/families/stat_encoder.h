#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compressors/frame/payload_sum.h"
#include "compressors/kernels/kernels.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/bit_pack.h"
#include "compressors/numbers/small_floats.h"
#include "compressors/numbers/tree_sum.h"

// How statistical.cc encodes a tensor.
namespace longhaul {

// Mean and width of the bins of the statistical quantizer (families/statistical.cc), from one reading of the
// elements: sums of x - pivot and of its square, the pivot being the mean of the first few.

constexpr size_t kPivotElements = 64;

// The sum over a table of (x - mu)^2, from those about the pivot. Negative when most of it would
// cancel, as where the first elements are far from all others: it must be measured then.
LONGHAUL_INLINE double SquaresAboutMean(double sum, double squares, uint64_t n) {
  const double rest = squares - sum * (sum / static_cast<double>(n));
  return rest < squares / 4 ? -1.0 : rest;
}
LONGHAUL_INLINE float StatMean(float pivot, double sum, uint64_t n) {
  return static_cast<float>(static_cast<double>(pivot) + sum / static_cast<double>(n));
}
// 1 / the bins' width, which is 6 sigma / bins, or 1 where sigma says nothing.
LONGHAUL_INLINE float StatInverse(double squares, uint64_t n, int bins) {
  const auto sigma = static_cast<float>(sqrt(squares / static_cast<double>(n - 1)));
  const float step = 6 * sigma / static_cast<float>(bins);
  return 1.0f / (step >= 0x1p-126f && step < FromBits(kInfBits) ? step : 1.0f);
}

constexpr size_t kMaxStatBins = 256;

// The mean, and what every code stands for beside it.
struct StatTable {
  float mu = 0;
  float offset[kMaxStatBins];
};

// Over the tensor: of x - pivot, and of its square.
struct StatTotals {
  double sum = 0, squares = 0;

  void Add(PivotSums chunk) {
    sum += static_cast<double>(chunk.sum);
    squares += static_cast<double>(chunk.squares);
  }
};

// The tensor, by chunks of the summing order.
class StatEncoder {
 public:
  // codes: in the frame.
  StatEncoder(const WideReader& reader, size_t elements, const Kernels& kernels, int bits,
              std::byte* codes)
      : reader_(reader), elements_(elements), kernels_(kernels), bits_(bits), codes_(codes) {
    float buffer[kPivotElements];
    const size_t n = std::min(kPivotElements, elements);
    pivot_ = kernels_.sum(reader_.Peek(0, n, buffer), n) / static_cast<float>(n);
  }

  size_t chunks() const { return (elements_ + kSumChunk - 1) / kSumChunk; }

  void Codes(size_t chunk, BinSums& bins, RunningSum& running) const {
    float buffer[kSumChunk];
    std::byte* codes = codes_ + PackedBytes(chunk * kSumChunk, bits_);
    kernels_.stat_codes(Chunk(chunk, buffer), Length(chunk), table_.mu, inverse_, bits_, codes,
                        bins);
    running.Add({codes, PackedBytes(Length(chunk), bits_)});
  }

  template <class Term>
  StatTotals AddUp(Term term) const {
    StatTotals totals;
    for (size_t chunk = 0; chunk < chunks(); ++chunk) totals.Add(term(chunk));
    return totals;
  }
  // The mean, and the bins' width from (x - mu)^2: by the sums, or where those do not tell it, in a
  // second reading. add_up: AddUp, or what gives the same.
  template <class Adding>
  BlockFault SetMoments(Adding add_up) {
    const StatTotals totals = add_up([this](size_t chunk) { return Sums(chunk); });
    if (!std::isfinite(totals.sum)) return WhyNotFinite();
    table_.mu = StatMean(pivot_, totals.sum, elements_);
    double squares = SquaresAboutMean(totals.sum, totals.squares, elements_);
    if (squares < 0) squares = add_up([this](size_t chunk) { return Squares(chunk); }).squares;
    if (!std::isfinite(table_.mu) || !std::isfinite(squares)) return BlockFault::kRange;
    inverse_ = StatInverse(squares, elements_, 1 << bits_);
    return BlockFault::kNone;
  }
  void StoreTable(const BinSums& bins, std::byte* at) {
    kernels_.stat_offsets(bins, inverse_, bits_, table_.offset);
    std::memcpy(at, &table_.mu, 4);
    std::memcpy(at + 4, table_.offset, size_t{4} << bits_);
  }

 private:
  PivotSums Sums(size_t chunk) const {
    float buffer[kSumChunk];
    return kernels_.sums_about(Chunk(chunk, buffer), Length(chunk), pivot_);
  }
  PivotSums Squares(size_t chunk) const {
    float buffer[kSumChunk];
    return {0, kernels_.sum_squares(Chunk(chunk, buffer), Length(chunk), table_.mu)};
  }
  BlockFault WhyNotFinite() const {
    float buffer[kSumChunk];
    for (size_t chunk = 0; chunk < chunks(); ++chunk) {
      const size_t at = chunk * kSumChunk;
      if (reader_.View(at, Length(chunk), buffer) == nullptr) return BlockFault::kNotFinite;
    }
    return BlockFault::kRange;
  }
  size_t Length(size_t chunk) const { return std::min(kSumChunk, elements_ - chunk * kSumChunk); }
  const float* Chunk(size_t chunk, float* buffer) const {
    return reader_.Peek(chunk * kSumChunk, Length(chunk), buffer);
  }

  const WideReader& reader_;
  const size_t elements_;
  const Kernels& kernels_;
  const int bits_;
  std::byte* const codes_;
  StatTable table_;
  float pivot_ = 0, inverse_ = 1;
};

}  // namespace longhaul
