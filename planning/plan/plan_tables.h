#pragma once

#include <string>
#include <vector>

#include "experiments/estimates/table.h"
#include "planning/plan/plan.h"

namespace longhaul::plan {

// The rows, and as notes what they stand on, what is extrapolated, what was left out, the verdict.
// `most` rows, 0: all.
Table PlanTable(const Plan& plan, size_t most);

// A line for each row, every figure in full.
CsvRows PlanCsv(const Plan& plan);

// The schema longhaul.plan/1; `next`: NextText.
std::string PlanJson(const Plan& plan, const std::string& next);

}  // namespace longhaul::plan
