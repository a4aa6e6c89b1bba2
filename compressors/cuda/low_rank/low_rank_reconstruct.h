#pragma once

#include "compressors/cuda/low_rank/low_rank_launch.h"
#include "compressors/cuda/team/elements.h"

namespace longhaul {

// Which eight of a strip's 256 elements a thread has: neighbours, where all rows may be loaded and
// stored by 16 bytes; else t, t + 32, ..., so that a warp still touches neighbouring elements.
enum class StripOrder { kByEight, kByLane };

// x = P Q^T; terms are added in the order of columns. A warp has a strip of four rows, so that it
// loads of Q once what four rows want.
template <DType kType>
struct ReconstructKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kResidentThreads = 768;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr int kRows = 4;

  struct Rows {
    Eight row[kRows];
  };
  struct Place {  // of the four rows' strip
    uint64_t row, column;
  };

  LowRankRun run;

  LONGHAUL_HOST_DEVICE uint64_t strips() const { return (run.cols + kStrip - 1) / kStrip; }
  LONGHAUL_HOST_DEVICE uint64_t teams() const { return (run.rows + kRows - 1) / kRows * strips(); }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t group = Quotient(team.index(), strips());
    const uint64_t row = group * kRows, column = (team.index() - group * strips()) * kStrip;
    const bool by_eight = run.cols % kPerThread == 0 && Aligned(run.x, 16) &&
                          Aligned(reinterpret_cast<const std::byte*>(run.q), 16);
    if (by_eight) {
      FourRows<StripOrder::kByEight>(team, {row, column});
    } else {
      FourRows<StripOrder::kByLane>(team, {row, column});
    }
  }

  template <StripOrder kOrder, class Team>
  LONGHAUL_TEXT void FourRows(Team& team, const Place& place) const {
    if (place.column + kStrip <= run.cols && (place.row + kRows) * run.cols <= run.elements) {
      Strip<kOrder, true>(team, place);
    } else {
      Strip<kOrder, false>(team, place);
    }
  }

  // kWhole: all elements exist.
  template <StripOrder kOrder, bool kWhole, class Team>
  LONGHAUL_TEXT void Strip(Team& team, const Place& place) const {
    typename Team::template Own<Rows> v;
    team.Each([&](int t) {
      v[t] = {};
      AddTerms<kOrder, kWhole, Team>(t, place, v[t]);
      if (!kWhole) ForgetMissing<kOrder>(t, place, v[t]);
      uint32_t top = 0;
      LONGHAUL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const uint32_t largest = MaxBits(v[t].row[r]);
        top = largest > top ? largest : top;
      }
      if (top >= kInfBits) Team::Min(&run.report->fault, 0);
    });
    LONGHAUL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      typename Team::template Own<RawEight<kType>> raw;
      team.Each([&](int t) { Narrow<kType>(v[t].row[r], raw[t]); });
      const uint64_t at = (place.row + static_cast<uint64_t>(r)) * run.cols + place.column;
      if constexpr (kOrder == StripOrder::kByEight && kWhole) {
        StoreStrip<kType>(team, raw, run.x + at * kElementBytes);
      } else {
        team.Each([&](int t) { StoreExisting<kOrder, kWhole, Team>(t, place, at, raw[t]); });
      }
    }
  }

  // Where in the strip a thread's element e is.
  template <StripOrder kOrder>
  LONGHAUL_TEXT static uint64_t Offset(int t, int e) {
    return static_cast<uint64_t>(kOrder == StripOrder::kByEight ? kPerThread * t + e
                                                                : t + kWarp * e);
  }

  // Whether element `offset` of the strip that begins with element `at` of x exists.
  LONGHAUL_TEXT bool Exists(const Place& place, uint64_t at, uint64_t offset) const {
    return place.column + offset < run.cols && at + offset < run.elements;
  }

  // Beyond the last row, its own once more; of missing elements anything.
  template <StripOrder kOrder, bool kWhole, class Team>
  LONGHAUL_TEXT void AddTerms(int t, const Place& place, Rows& v) const {
    const float* p[kRows];
    LONGHAUL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const uint64_t own = place.row + static_cast<uint64_t>(r);
      p[r] = run.p + (own < run.rows ? own : run.rows - 1);
    }
    if (place.column + Offset<kOrder>(t, 0) >= run.cols) return;
    const float* q = run.q + place.column + Offset<kOrder>(t, 0);
    for (uint32_t j = 0; j < run.rank; ++j, q += run.cols) {
      float own[kPerThread];
      LoadFactor<kOrder, kWhole, Team>(t, place, q, own);
      LONGHAUL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const float factor = *p[r];
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) v.row[r].x[e] += factor * own[e];
        p[r] += run.rows;
      }
    }
  }

  template <StripOrder kOrder, bool kWhole, class Team>
  LONGHAUL_TEXT void LoadFactor(int t, const Place& place, const float* q, float* own) const {
    if constexpr (kOrder == StripOrder::kByEight) {
      const auto* from = reinterpret_cast<const std::byte*>(q);
      const Quad low = Team::template Load<Quad>(from), high = Team::template Load<Quad>(from + 16);
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        own[e] = FromBits(e < 4 ? low.word[e % 4] : high.word[e % 4]);
      }
    } else {
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        const bool exists = kWhole || place.column + Offset<kOrder>(t, e) < run.cols;
        own[e] = exists ? q[kWarp * e] : 0.0f;
      }
    }
  }

  // What does not exist is not looked at.
  template <StripOrder kOrder>
  LONGHAUL_TEXT void ForgetMissing(int t, const Place& place, Rows& v) const {
    LONGHAUL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const uint64_t at = (place.row + static_cast<uint64_t>(r)) * run.cols + place.column;
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        v.row[r].x[e] = Exists(place, at, Offset<kOrder>(t, e)) ? v.row[r].x[e] : 0.0f;
      }
    }
  }

  template <StripOrder kOrder, bool kWhole, class Team>
  LONGHAUL_TEXT void StoreExisting(int t, const Place& place, uint64_t at,
                                   const RawEight<kType>& raw) const {
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const uint64_t offset = Offset<kOrder>(t, e);
      if (!kWhole && !Exists(place, at, offset)) continue;
      std::byte* x = run.x + (at + offset) * kElementBytes;
      if constexpr (kType == DType::kF32) {
        Team::Store(raw.quad[e / 4].word[e % 4], x);
      } else {
        Team::Store(static_cast<uint16_t>(raw.quad[0].word[e / 2] >> (e % 2 * 16)), x);
      }
    }
  }
};

}  // namespace longhaul
