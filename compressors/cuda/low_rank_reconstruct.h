#pragma once

#include "compressors/cuda/elements.h"
#include "compressors/cuda/low_rank_launch.h"

namespace longhaul {

// x = P Q^T; terms are added in the order of columns. Where rows are long and a multiple of eight,
// a warp has a strip of four rows, so that it loads of Q once what four rows want; elsewhere a
// strip of the flat order, whose elements look for their row one by one.
template <DType kType>
struct ReconstructKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kResidentThreads = 768;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr int kRows = 4;

  struct Rows {
    Eight row[kRows];
  };

  LowRankRun run;

  LONGHAUL_HOST_DEVICE bool tiled() const {
    const auto bits = reinterpret_cast<uint64_t>(run.x) | reinterpret_cast<uint64_t>(run.q);
    return bits % 16 == 0 && run.cols % kPerThread == 0 && run.cols >= kStrip;
  }
  LONGHAUL_HOST_DEVICE uint64_t strips() const { return (run.cols + kStrip - 1) / kStrip; }
  LONGHAUL_HOST_DEVICE uint64_t teams() const {
    return tiled() ? (run.rows + kRows - 1) / kRows * strips()
                   : (run.elements + kStrip - 1) / kStrip;
  }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    if (tiled()) {
      FourRows(team);
    } else {
      Flat(team);
    }
  }

  template <class Team>
  LONGHAUL_TEXT void FourRows(Team& team) const {
    const uint64_t group = Quotient(team.index(), strips());
    const uint64_t first = group * kRows, strip = (team.index() - group * strips()) * kStrip;
    const uint64_t corner = first * run.cols + strip;
    const bool whole = strip + kStrip <= run.cols && (first + kRows) * run.cols <= run.elements;
    typename Team::template Own<Rows> v;
    team.Each([&](int t) {
      v[t] = {};
      const uint64_t column = strip + static_cast<uint64_t>(kPerThread * t);
      if (column < run.cols) AddTerms<Team>(first, column, v[t]);
      if (!whole) ForgetMissing(corner + static_cast<uint64_t>(kPerThread * t), v[t]);
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
      const uint64_t at = corner + static_cast<uint64_t>(r) * run.cols;
      if (whole) {
        StoreStrip<kType>(team, raw, run.x + at * kElementBytes);
      } else {
        team.Each([&](int t) {
          const auto own = static_cast<uint64_t>(kPerThread * t);
          if (strip + own < run.cols) Put<Team>(raw[t], at + own);
        });
      }
    }
  }

  // Eight elements of four rows; beyond the last row, its own once more.
  template <class Team>
  LONGHAUL_TEXT void AddTerms(uint64_t row, uint64_t column, Rows& v) const {
    const float* p[kRows];
    LONGHAUL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const uint64_t own = row + static_cast<uint64_t>(r);
      p[r] = run.p + (own < run.rows ? own : run.rows - 1);
    }
    const float* q = run.q + column;
    for (uint32_t j = 0; j < run.rank; ++j, q += run.cols) {
      const Quad low = Team::template Load<Quad>(reinterpret_cast<const std::byte*>(q));
      const Quad high = Team::template Load<Quad>(reinterpret_cast<const std::byte*>(q + 4));
      LONGHAUL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const float factor = *p[r];
        LONGHAUL_UNROLL
        for (int e = 0; e < 4; ++e) {
          v.row[r].x[e] += factor * FromBits(low.word[e]);
          v.row[r].x[e + 4] += factor * FromBits(high.word[e]);
        }
        p[r] += run.rows;
      }
    }
  }

  // What is not there is not looked at.
  LONGHAUL_TEXT void ForgetMissing(uint64_t at, Rows& v) const {
    LONGHAUL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int count = CountBelow(at + static_cast<uint64_t>(r) * run.cols, run.elements);
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) v.row[r].x[e] = e < count ? v.row[r].x[e] : 0.0f;
    }
  }

  template <class Team>
  LONGHAUL_TEXT void Flat(Team& team) const {
    team.Each([&](int t) {
      const uint64_t at = team.index() * kStrip + static_cast<uint64_t>(kPerThread * t);
      const int count = CountBelow(at, run.elements);
      if (count == 0) return;
      uint64_t row = Quotient(at, run.cols), column = at - row * run.cols;
      const float *p[kPerThread], *q[kPerThread];
      LONGHAUL_UNROLL
      for (int e = 0; e < kPerThread; ++e) {
        p[e] = run.p + row;
        q[e] = run.q + column;
        if (e + 1 < count && ++column == run.cols) {  // behind the last, its own once more
          column = 0;
          ++row;
        }
      }
      Eight v = {};
      for (uint32_t j = 0; j < run.rank; ++j) {
        LONGHAUL_UNROLL
        for (int e = 0; e < kPerThread; ++e) {
          v.x[e] += *p[e] * *q[e];
          p[e] += run.rows;
          q[e] += run.cols;
        }
      }
      if (MaxBits(v) >= kInfBits) Team::Min(&run.report->fault, 0);
      RawEight<kType> raw;
      Narrow<kType>(v, raw);
      Put<Team>(raw, at);
    });
  }

  // Elements at .. at + 7, as far as they exist.
  template <class Team>
  LONGHAUL_TEXT void Put(const RawEight<kType>& raw, uint64_t at) const {
    std::byte* x = run.x + at * kElementBytes;
    const int count = CountBelow(at, run.elements);
    if (count == kPerThread && Aligned(x, 16)) {
      StoreEight<Team, kType>(raw, x);
    } else {
      StoreSome<Team, kType>(raw, count, x);
    }
  }
};

}  // namespace longhaul
