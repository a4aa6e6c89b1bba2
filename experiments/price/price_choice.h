#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/price/price_plan.h"

namespace longhaul {

// Cuts and codecs for a budget of loss, from the prices of single boundaries: pure functions. What
// is chosen takes boundaries to add up (price_estimates.h, Interaction, says how far they do).

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
