#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/price/price_estimates.h"
#include "experiments/price/price_plan.h"

namespace longhaul {

// What is asked of a model. Plain values.
struct PriceRequest {
  std::vector<std::string> codecs;
  std::vector<std::vector<int64_t>> cuts;  // each way to cut the model; S is one more than its size
  int64_t blocks;                          // L
  int64_t rows;                            // to price on; as many more to verify a choice on
  int64_t context;                         // T, tokens of a row
  std::vector<double> allowed_nat;         // losses for which bits are named
  std::optional<double> budget_nat = {};   // of a choice of cuts and codecs
  int64_t move = 0;                        // blocks by which a choice may move a cut
  int64_t gradient_rows = 0;               // the first of `rows`; 0: no gradients
  uint64_t seed = 1;                       // of codecs that draw
};

// What has to be evaluated for it: nothing compressed, each boundary alone, all of each way to cut.
PriceArms ArmsOf(const PriceRequest& request);

enum class GradientSide { kForward, kBackward, kBoth };
const char* ToString(GradientSide side);
struct GradientPlan {
  size_t cuts, codec;
  GradientSide side;
};
// Each way to cut with each codec in each direction.
std::vector<GradientPlan> GradientsOf(const PriceRequest& request);

// What was seen, rows in the order in which they were evaluated.
struct PriceSeen {
  PriceArms arms;
  std::vector<int64_t> windows = {};   // [rows]: where a row lies in the text, in rows
  std::vector<RowValues> losses = {};  // [arm][rows], nat/token
  std::map<PricedCrossing, BoundaryCount> forward = {};   // of tensors before which nothing was
  std::map<PricedCrossing, BoundaryCount> backward = {};  // compressed
  std::vector<RowValues> gradient_nmse = {}, gradient_cosine = {};  // [GradientsOf][gradient rows]
};

// A codec at one boundary alone.
struct BoundaryPrice {
  PricedCrossing crossing;
  Measured delta;  // nat/token
  BoundaryCount count;
};

// A codec at all cuts together.
struct DepthPrice {
  size_t cuts, codec;
  Measured delta, per_crossing;         // nat/token; the second over S - 1 crossings
  double bits;                          // per element, header included
  Measured sum_alone;                   // of the same boundaries one by one
  std::optional<Measured> interaction;  // delta - sum_alone; none of one boundary
  std::optional<WorstBoundary> worst;   // indices into the cuts
  double neighbour_correlation;         // of rows' Deltas that follow each other in the text
};

struct AllowedFinding {
  size_t cuts;
  double allowed;
  std::optional<size_t> enough, too_few;  // codecs
};

// A choice within the budget, or why there is none.
struct ChoiceFinding {
  size_t cuts;
  std::string none = {};
  BoundaryChoice choice = {};
  Measured predicted = {};                    // sum of the prices, on the rows that were priced
  std::optional<Measured> together = {};      // on other rows, all its boundaries at once
  std::optional<BudgetVerdict> verdict = {};  // of `together`
};

struct GradientFinding {
  GradientPlan of;
  Measured nmse, cosine;
};

struct PriceFindings {
  Measured exact;  // nat/token of the uncompressed model
  std::vector<DepthPrice> depths;
  std::vector<BoundaryPrice> boundaries;
  std::vector<AllowedFinding> allowed;
  std::vector<ChoiceFinding> choices;  // by cuts; empty without a budget
  std::vector<GradientFinding> gradients;
};

// All but what ChoiceFinding has from other rows.
PriceFindings FindPrices(const PriceRequest& request, const PriceSeen& seen);

// `exact`, `arm`: losses of the other rows.
void AddVerification(const PriceRequest& request, const RowValues& arm, const RowValues& exact,
                     ChoiceFinding& choice);

// The largest correlation of neighbouring rows over depths: beyond NeighbourBound intervals are too
// narrow.
double MostAlike(const PriceFindings& findings);

}  // namespace longhaul
