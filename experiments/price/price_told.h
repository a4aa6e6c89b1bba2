#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/price/price_input.h"
#include "experiments/price/price_plan.h"
#include "experiments/price/price_run.h"

namespace longhaul {

// What Python makes of a pricing: the verb _price of python/longhaul/commands/pricing.py, which gets all that was seen
// as one JSON document.

// Whether it could: what it needs is imported. To be asked before anything takes time; its own line says what is
// missing.
bool CanReadPrices();

absl::StatusOr<std::vector<PriceArm>> ChosenArms(const PriceInput& input,
                                                 const PriceOutcome& outcome);

struct PriceShown {
  std::string text,
      json;  // tables, and "longhaul.price/1": the same unrounded, with intervals; units in keys
  std::string csv, page;  // every row's figures; a self-contained page. Empty unless asked for
  std::string unmet;  // why no choice keeps the budget; empty where one does or none was asked for
};
absl::StatusOr<PriceShown> ShowPrices(const PriceInput& input, const PriceOutcome& outcome,
                                      bool csv, bool page);

}  // namespace longhaul
