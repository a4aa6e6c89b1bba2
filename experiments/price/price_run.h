#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/price/price_input.h"
#include "experiments/price/price_plan.h"

namespace longhaul {

// How far a pricing is. Work is in forward passes of one row through one block; backward passes
// count as two.
struct PriceProgress {
  std::string doing;  // "row 3 of 32"
  double done, all;
};

// Rows that had no part in the choices: arms as they were chosen.
struct PriceVerification {
  std::vector<int64_t> windows;
  RowValues exact;
  std::vector<RowValues> chosen;  // by way to cut; empty where nothing was chosen
};

struct PriceOutcome {
  PriceSeen seen;
  std::optional<PriceVerification> verification;
  // What it was computed by.
  std::string engine, torch, torch_cpu_path, codec_cpu_path;
  int64_t threads;
  double head_in_blocks;
};

// What is chosen within the budget for each way to cut, by the rows that were seen; an empty arm: nothing.
using ChooseArms = std::function<absl::StatusOr<std::vector<PriceArm>>(const PriceOutcome&)>;

// Loads the model and evaluates everything that the request asks for, on `threads` threads of this
// process. Errors as PriceModel's and those of `choose`, which is asked where there is a budget.
absl::StatusOr<PriceOutcome> RunPrice(const PriceInput& input, int64_t threads,
                                      const std::function<void(const PriceProgress&)>& progress,
                                      const ChooseArms& choose);

}  // namespace longhaul
