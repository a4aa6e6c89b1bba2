#include "experiments/price/price_estimates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

constexpr double kLevel = 0.95;

// Bits are counted in whole millionths, so that sums of the same codecs are equal in any order.
constexpr double kMillionths = 1e6;

// A choice for the boundaries so far.
struct Partial {
  int64_t bits;
  double nat;
  std::vector<size_t> prices;  // indices
};

// Keeps what no other beats in both bits and nat: ascending bits, falling nat.
void KeepFront(std::vector<Partial>& all) {
  std::sort(all.begin(), all.end(), [](const Partial& a, const Partial& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.nat < b.nat;
  });
  double least = std::numeric_limits<double>::infinity();
  std::vector<Partial> front;
  for (Partial& partial : all) {
    if (partial.nat >= least) continue;
    least = partial.nat;
    front.push_back(std::move(partial));
  }
  all = std::move(front);
}

}  // namespace

RowValues Less(std::span<const double> b, std::span<const double> a) {
  RowValues out(b.size());
  std::transform(b.begin(), b.end(), a.begin(), out.begin(), std::minus<>());
  return out;
}

RowValues Times(double factor, std::span<const double> x) {
  RowValues out(x.begin(), x.end());
  for (double& value : out) value *= factor;
  return out;
}

Measured DeltaOf(std::span<const double> arm, std::span<const double> exact) {
  return MeanWithInterval(Less(arm, exact), kLevel);
}

Measured MeanWithin(std::span<const double> x, double least, double most) {
  Measured mean = MeanWithInterval(x, kLevel);
  if (mean.interval) {
    mean.interval->low = std::max(mean.interval->low, least);
    mean.interval->high = std::min(mean.interval->high, most);
  }
  return mean;
}

Measured Interaction(std::span<const double> all, std::span<const RowValues> alone,
                     std::span<const double> exact) {
  RowValues rows = Less(all, exact);
  for (const RowValues& one : alone) rows = Less(rows, Less(one, exact));
  return MeanWithInterval(rows, kLevel);
}

std::optional<WorstBoundary> FindWorst(std::span<const RowValues> alone) {
  if (alone.size() < 2) return std::nullopt;
  std::vector<size_t> order(alone.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<double> means;
  for (const RowValues& one : alone) means.push_back(Mean(one));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return means[a] < means[b]; });
  const size_t worst = order.back(), median = order[(order.size() - 1) / 2];
  const size_t pairs = alone.size() * (alone.size() - 1) / 2;
  const double level = 1 - (1 - kLevel) / static_cast<double>(pairs);
  return WorstBoundary{.worst = worst,
                       .median = median,
                       .more = MeanWithInterval(Less(alone[worst], alone[median]), level),
                       .pairs = pairs};
}

AllowedBits BitsFor(double allowed, std::span<const PricedCodec> codecs) {
  AllowedBits out{.allowed = allowed, .enough = std::nullopt, .too_few = std::nullopt};
  for (size_t c = 0; c < codecs.size(); ++c) {
    const std::optional<Interval>& interval = codecs[c].delta.interval;
    if (!interval) continue;
    const double bits = codecs[c].bits;
    if (interval->high <= allowed && (!out.enough || bits < codecs[*out.enough].bits)) {
      out.enough = c;
    }
    if (interval->low > allowed && (!out.too_few || bits > codecs[*out.too_few].bits)) {
      out.too_few = c;
    }
  }
  return out;
}

double NeighbourCorrelation(std::span<const double> x) {
  const double mean = Mean(x);
  double all = 0, pairs = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    all += (x[i] - mean) * (x[i] - mean);
    if (i > 0) pairs += (x[i] - mean) * (x[i - 1] - mean);
  }
  return all > 0 ? pairs / all : 0;
}

double NeighbourBound(size_t rows, size_t arms) {
  return NormalQuantile(1 - (1 - kLevel) / 2 / static_cast<double>(arms)) /
         std::sqrt(static_cast<double>(rows));
}

std::vector<CutRange> RangesAround(std::span<const int64_t> cuts, int64_t move, int64_t blocks) {
  std::vector<CutRange> ranges;
  for (const int64_t cut : cuts) {
    ranges.push_back({std::max<int64_t>(1, cut - move), std::min(blocks - 1, cut + move)});
  }
  return ranges;
}

std::vector<int64_t> BlocksOf(std::span<const CutRange> ranges) {
  std::set<int64_t> blocks;
  for (const CutRange& range : ranges) {
    for (int64_t b = range.least; b <= range.most; ++b) blocks.insert(b);
  }
  return {blocks.begin(), blocks.end()};
}

absl::StatusOr<BoundaryChoice> ChooseBoundaries(std::span<const SinglePrice> prices,
                                                std::span<const CutRange> ranges,
                                                double budget_nat) {
  // By the block of the last boundary: only that bears on what may follow.
  std::map<int64_t, std::vector<Partial>> fronts = {{0, {{0, 0, {}}}}};
  for (const CutRange& range : ranges) {
    std::map<int64_t, std::vector<Partial>> next;
    for (size_t p = 0; p < prices.size(); ++p) {
      const int64_t block = prices[p].crossing.block;
      if (block < range.least || block > range.most) continue;
      for (const auto& [last, front] : fronts) {
        if (last >= block) break;
        for (const Partial& before : front) {
          Partial& made = next[block].emplace_back(before);
          made.bits += std::llround(prices[p].bits * kMillionths);
          made.nat += prices[p].nat;
          made.prices.push_back(p);
        }
      }
    }
    for (auto& [block, front] : next) KeepFront(front);
    fronts = std::move(next);
  }
  std::vector<Partial> all;
  for (auto& [block, front] : fronts) all.insert(all.end(), front.begin(), front.end());
  KeepFront(all);
  if (all.empty()) {
    return absl::FailedPreconditionError(
        "no boundaries can be placed so with prices that are known");
  }
  const auto fits = std::find_if(all.begin(), all.end(),
                                 [&](const Partial& partial) { return partial.nat <= budget_nat; });
  if (fits == all.end()) {
    return absl::FailedPreconditionError(
        fmt::format("no choice of these codecs costs as little as {:.4g} nat: the least is {:.4g}",
                    budget_nat, all.back().nat));
  }
  BoundaryChoice choice{.arm = {}, .nat = fits->nat, .bits = 0};
  for (const size_t p : fits->prices) {
    choice.arm.push_back(prices[p].crossing);
    choice.bits += prices[p].bits;
  }
  return choice;
}

BudgetVerdict VerdictOf(double low, double high, double budget_nat) {
  if (high <= budget_nat) return BudgetVerdict::kHolds;
  return low > budget_nat ? BudgetVerdict::kExceeds : BudgetVerdict::kNotShown;
}

const char* ToString(BudgetVerdict verdict) {
  switch (verdict) {
    case BudgetVerdict::kHolds:
      return "within the budget";
    case BudgetVerdict::kExceeds:
      return "beyond the budget";
    case BudgetVerdict::kNotShown:
      return "not shown: the interval holds the budget";
  }
  return "";
}

}  // namespace longhaul
