#pragma once

#include "compressors/cuda/stat/stat_sums.h"

// From the sums of a table's chunks to mean and width of its bins.
namespace longhaul {

LONGHAUL_TEXT float InverseOrNone(double squares, const StatRun& run) {
  return squares < 0 ? 0.0f : StatInverse(squares, run.elements, run.bins);
}
LONGHAUL_TEXT bool MomentsFinite(float mu, double squares) {
  return !NotFinite(mu) && squares - squares == 0;
}

// fp32 numbers to be added up in fp64, and what tells whether the order matters. It does not where
// all are multiples of some 2^k and their magnitudes add up to 2^(k + 53) at most: then no addition
// rounds, in any order.
struct OrderlessSum {
  double sum, magnitudes;
  int finest;  // kCoarse less the least exponent, above 2^-149's, of a last bit that is 1; or 0

  LONGHAUL_TEXT void Add(float x) {
    sum += static_cast<double>(x);
    const uint32_t bits = BitsOf(x) & kAbsMask;
    magnitudes += static_cast<double>(FromBits(bits));
    const uint32_t exponent = bits >> 23, fraction = bits & 0x7FFFFF;
    const uint32_t digits = exponent == 0 ? fraction : fraction | 0x800000;
    if (digits == 0) return;
    // The exponent of a power of two as fp32, which it is exactly.
    const uint32_t last = BitsOf(static_cast<float>(digits & (0 - digits))) >> 23;
    Refine(kCoarse + 127 - static_cast<int>((exponent == 0 ? 0 : exponent - 1) + last));
  }
  LONGHAUL_TEXT void Add(const OrderlessSum& other) {
    sum += other.sum;
    magnitudes += other.magnitudes;
    Refine(other.finest);
  }
  LONGHAUL_TEXT void Refine(int other) { finest = other > finest ? other : finest; }
  // What is not finite stays so in any order. A bit to spare, as `magnitudes` may be rounded.
  LONGHAUL_TEXT bool Exact() const {
    const int exponent = static_cast<int>(__builtin_bit_cast(uint64_t, magnitudes) >> 52 & 0x7FF);
    if (finest == 0 || exponent == 0x7FF) return true;
    return exponent - 1023 + 149 + 2 <= kCoarse - finest + 53;
  }

  static constexpr int kCoarse = 1024;
};

// One block per table adds the chunks' totals in fp64, by index: all threads at once where that
// gives the same, or else one thread. After the first sums the bins are emptied.
template <StatSums kSums, DType kType>
struct StatTotalKernel {
  static constexpr int kThreads = 1024;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr uint64_t kAtOnce = 8;
  struct Both {
    OrderlessSum sum, squares;
  };
  struct Place {
    Both warps[kWarps];
    double sum, squares;
    ChunkTotals some[kThreads];
  };

  StatRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.tables; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t table = team.index();
    if (kSums == StatSums::kAboutMean && run.inverse[table] != 0) return;
    typename Team::template Own<float> pivot;
    if constexpr (kSums == StatSums::kAboutPivot) {
      typename Team::template Own<const std::byte*> x;
      team.Each([&](int t) { x[t] = run.x + table * run.elements * kStatBytes<kType>; });
      StatPivot<kType>(team, run.elements, x, pivot);
    }
    typename Team::template Shared<Place> place;
    typename Team::template Own<bool> exact;
    AddTogether(team, place, exact);
    // By index, a block's worth of totals at a time, where the order matters.
    const uint64_t chunks = StatChunks(run);
    for (uint64_t first = 0; first < chunks; first += kThreads) {
      if (exact[team.thread()]) break;
      const uint64_t left = chunks - first;
      team.Phase([&](int t) {
        const auto i = static_cast<uint64_t>(t);
        if (i < left) place->some[t] = run.totals[table * chunks + first + i];
      });
      team.Phase([&](int t) {
        const int n = static_cast<int>(left < kThreads ? left : kThreads);
        if (t == 0) AddInOrder(place->some, n, first == 0, place->sum, place->squares);
      });
    }
    team.Phase([&](int t) {
      if (t == 0) Finish<Team>(table, pivot[t], place->sum, place->squares);
      if (kSums == StatSums::kAboutPivot && t < run.bins) {
        const uint64_t bin = table * static_cast<uint64_t>(run.bins) + static_cast<uint64_t>(t);
        run.units[bin] = run.counts[bin] = 0;
      }
    });
  }

  // exact: alike in all threads; then the place has the sums.
  template <class Team, class Shared, class Exact>
  LONGHAUL_TEXT void AddTogether(Team& team, Shared& place, Exact& exact) const {
    const uint64_t chunks = StatChunks(run), first = team.index() * chunks;
    typename Team::template Own<Both> both;
    team.Each([&](int t) {
      both[t] = Both{};
      for (auto i = static_cast<uint64_t>(t); i < chunks; i += kAtOnce * kThreads) {
        ChunkTotals chunk[kAtOnce];
        LONGHAUL_UNROLL
        for (uint64_t j = 0; j < kAtOnce; ++j) {
          const uint64_t at = i + j * kThreads;
          chunk[j] = at < chunks ? run.totals[first + at] : ChunkTotals{0, 0};
        }
        LONGHAUL_UNROLL
        for (uint64_t j = 0; j < kAtOnce; ++j) {
          both[t].sum.Add(chunk[j].sum);
          both[t].squares.Add(chunk[j].squares);
        }
      }
    });
    FoldBoth(team, both);
    team.Phase([&](int t) {
      if (t % kWarp == 0) place->warps[t / kWarp] = both[t];
    });
    team.Phase([&](int t) { both[t] = place->warps[t % kWarp]; });
    FoldBoth(team, both);
    team.Phase([&](int t) {
      exact[t] = both[t].sum.Exact() && both[t].squares.Exact();
      if (t != 0) return;
      place->sum = both[t].sum.sum;
      place->squares = both[t].squares.sum;
    });
  }
  template <class Team, class Own>
  LONGHAUL_TEXT static void FoldBoth(Team& team, Own& both) {
    static_assert(kWarps == kWarp);
    Fold<kWarp>(team, both, [](Both a, const Both& b) {
      a.sum.Add(b.sum);
      a.squares.Add(b.squares);
      return a;
    });
  }
  LONGHAUL_TEXT static void AddInOrder(const ChunkTotals* totals, int n, bool anew, double& sum,
                                       double& squares) {
    double s = anew ? 0 : sum, q = anew ? 0 : squares;
    for (int i = 0; i < n; ++i) {
      s += static_cast<double>(totals[i].sum);
      q += static_cast<double>(totals[i].squares);
    }
    sum = s;
    squares = q;
  }

  template <class Team>
  LONGHAUL_TEXT void Finish(uint64_t table, float pivot, double sum, double squares) const {
    std::byte* head = StatHead(run, table);
    if constexpr (kSums == StatSums::kAboutPivot) {
      Team::Store(StatMean(pivot, sum, run.elements), head);
      squares = SquaresAboutMean(sum, squares, run.elements);
    }
    run.inverse[table] = InverseOrNone(squares, run);
    if (!MomentsFinite(Team::template Load<float>(head), squares)) {
      StatReport<Team>(run, table, BlockFault::kRange);
    }
  }
};

}  // namespace longhaul
