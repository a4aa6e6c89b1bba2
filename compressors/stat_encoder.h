#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compressors/bit_pack.h"
#include "compressors/loop_kernels.h"
#include "compressors/payload_sum.h"
#include "compressors/tree_sum.h"
#include "compressors/wide.h"

// How statistical.cc encodes the elements that share a table.
namespace longhaul {

constexpr size_t kMaxStatBins = 256;

// One tensor or row: mean, and what every code stands for beside it.
struct StatTable {
  float mu = 0;
  float offset[kMaxStatBins] = {};
};

// Elements [first, last) of a table's.
struct StatRange {
  size_t first, last;
};

enum class StatFault { kNone, kNotFinite, kRange };

// The bins' width, 1 where sigma says nothing.
inline float StatStep(double squares, size_t n, int bits) {
  const auto sigma = static_cast<float>(std::sqrt(squares / static_cast<double>(n - 1)));
  const float step = 6 * sigma / static_cast<float>(1 << bits);
  return step >= 0x1p-126f && step < INFINITY ? step : 1.0f;
}

// Elements that share a table, by chunks of the summing order.
class StatEncoder {
 public:
  // codes: of the table, in the frame.
  StatEncoder(const WideReader& reader, StatRange range, Isa isa, int bits, std::byte* codes)
      : reader_(reader), range_(range), loops_(LoopKernelsOf(isa)), bits_(bits), codes_(codes) {}

  size_t elements() const { return range_.last - range_.first; }
  size_t chunks() const { return (elements() + kSumChunk - 1) / kSumChunk; }

  float Sum(size_t chunk) const {
    float buffer[kSumChunk];
    return loops_.sum(Chunk(chunk, buffer), Length(chunk));
  }
  float Squares(size_t chunk) const {
    float buffer[kSumChunk];
    return loops_.sum_squares(Chunk(chunk, buffer), Length(chunk), table_.mu);
  }
  void Codes(size_t chunk, BinSums& bins, RunningSum& running) const {
    float buffer[kSumChunk];
    std::byte* codes = codes_ + PackedBytes(chunk * kSumChunk, bits_);
    loops_.stat_codes(Chunk(chunk, buffer), Length(chunk), table_.mu, inverse_, bits_, codes, bins);
    running.Add({codes, PackedBytes(Length(chunk), bits_)});
  }

  // False: not finite.
  bool SetMean(double sum) {
    table_.mu = static_cast<float>(sum / static_cast<double>(elements()));
    return std::isfinite(sum);
  }
  bool SetStep(double squares) {
    inverse_ = 1.0f / StatStep(squares, elements(), bits_);
    return std::isfinite(table_.mu) && std::isfinite(squares);
  }
  void StoreTable(const BinSums& bins, std::byte* at) {
    loops_.stat_offsets(bins, inverse_, bits_, table_.offset);
    std::memcpy(at, &table_.mu, 4);
    std::memcpy(at + 4, table_.offset, size_t{4} << bits_);
  }
  // Why a sum is not finite.
  StatFault Fault() const {
    float buffer[kSumChunk];
    for (size_t chunk = 0; chunk < chunks(); ++chunk) {
      const size_t at = range_.first + chunk * kSumChunk;
      if (reader_.View(at, Length(chunk), buffer) == nullptr) return StatFault::kNotFinite;
    }
    return StatFault::kRange;
  }

 private:
  size_t Length(size_t chunk) const { return std::min(kSumChunk, elements() - chunk * kSumChunk); }
  const float* Chunk(size_t chunk, float* buffer) const {
    return reader_.Peek(range_.first + chunk * kSumChunk, Length(chunk), buffer);
  }

  const WideReader& reader_;
  const StatRange range_;
  const LoopKernels& loops_;
  const int bits_;
  std::byte* const codes_;
  StatTable table_;
  float inverse_ = 1;
};

}  // namespace longhaul
