#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"
#include "experiments/price/price_plan.h"

namespace longhaul {

// Estimators over the losses of rows (blocks of text; nat/token, one a row): pure functions. Losses
// of several arms are paired: row i is the same tokens in each. Intervals are t over rows, 95 %
// unless said otherwise.

using RowValues = std::vector<double>;

// Fewest rows that an interval is made of.
inline constexpr int kLeastPriceRows = 5;

// b - a, row by row.
RowValues Less(std::span<const double> b, std::span<const double> a);
RowValues Times(double factor, std::span<const double> x);

// Delta: mean of arm - exact.
Measured DeltaOf(std::span<const double> arm, std::span<const double> exact);

// Mean of what lies between `least` and `most`: ends of the interval beyond them are cut there.
Measured MeanWithin(std::span<const double> x, double least, double most);

// Delta of all boundaries together less the sum of the Deltas of each alone: 0 where boundaries add
// up, below where many cost less than their sum. `alone`: [boundaries][rows]. The losses cancel to
// all - sum(alone) + (boundaries - 1) exact, so one interval carries what the arms share.
Measured Interaction(std::span<const double> all, std::span<const RowValues> alone,
                     std::span<const double> exact);

// The boundary that costs most, against the median one (the lower of two in the middle).
struct WorstBoundary {
  size_t worst, median;  // indices into `alone`
  // Of their paired difference. The two were picked by the data: the level is that of one of all
  // pairs of boundaries when 95 % is wanted of all together (Bonferroni).
  Measured more;
  size_t pairs;
};
// nullopt: fewer than two boundaries.
std::optional<WorstBoundary> FindWorst(std::span<const RowValues> alone);

// What of several codecs is shown to cost at most, or more than, `allowed` nat.
struct PricedCodec {
  std::string name;
  double bits;  // per element
  Measured delta;
};
struct AllowedBits {
  double allowed;
  // The fewest bits whose interval lies at or below `allowed`; the most bits whose interval lies
  // above it. Indices. Between the two nothing is shown.
  std::optional<size_t> enough, too_few;
};
AllowedBits BitsFor(double allowed, std::span<const PricedCodec> codecs);

// Correlation of x with its neighbour, x in the order of the text: near 0 where rows are long
// enough to count as independent. 0 for a constant.
double NeighbourCorrelation(std::span<const double> x);
// Above this neighbours are alike beyond chance: the largest of `arms` correlations stays below it in
// 97.5 % where rows are independent.
double NeighbourBound(size_t rows, size_t arms);

// Cuts and codecs for a budget of loss, from the prices of single boundaries: pure functions. What
// is chosen takes boundaries to add up (Interaction says how far they do).

// What a codec at one boundary alone costs.
struct SinglePrice {
  PricedCrossing crossing;
  double nat;   // Delta; may lie below 0 by chance
  double bits;  // per element
};

// Where the s-th boundary may lie.
struct CutRange {
  int64_t least, most;  // blocks
};
// Around given cuts, at most `move` blocks to either side, within 1 to L - 1.
std::vector<CutRange> RangesAround(std::span<const int64_t> cuts, int64_t move, int64_t blocks);
// Every block of the ranges, ascending, once each.
std::vector<int64_t> BlocksOf(std::span<const CutRange> ranges);

struct BoundaryChoice {
  PriceArm arm;  // ascending blocks, one in each range
  double nat;    // sum of the prices
  double bits;   // sum over boundaries, per element
};

// Of all ways to place one boundary in each range, ascending, each with a codec: that of the fewest
// bits in all whose prices add up to at most `budget_nat`; of several with as few bits the cheapest.
// Exact, by the front of (bits, nat) boundary by boundary. FailedPrecondition: none, with the least
// that any costs. `prices` has at most one entry a crossing; what has none is not to be had.
absl::StatusOr<BoundaryChoice> ChooseBoundaries(std::span<const SinglePrice> prices,
                                                std::span<const CutRange> ranges,
                                                double budget_nat);

// What the choice was seen to cost on rows that had no part in it.
enum class BudgetVerdict {
  kHolds,     // the interval lies at or below the budget
  kExceeds,   // above it
  kNotShown,  // it holds the budget
};
BudgetVerdict VerdictOf(double low, double high, double budget_nat);
const char* ToString(BudgetVerdict verdict);  // "within the budget", ...

}  // namespace longhaul
