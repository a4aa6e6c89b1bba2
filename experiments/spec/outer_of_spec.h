#pragma once

#include <string>

#include "experiments/spec/spec.h"
#include "pp_group/outer/outer_plan.h"

namespace longhaul {

class TableReader;

// The outer step of a run as trainers take it, and when its groups meet over what: whoever counts
// rounds, exchanges or their bytes asks the plan.
OuterSpec ToOuterSpec(const RunSpec& spec);
OuterPlan OuterPlanOf(const RunSpec& spec);
// The spec's, or its outer algorithm's.
std::string InnerOptimizerOf(const RunSpec& spec);

// Figures of [outer] that the file leaves to its algorithm.
void TakeOuterDefaults(TableReader& r, RunSpec& spec);

// What keys of [outer], and of tables before it, must be to each other.
void CheckOuterTable(TableReader& r, const RunSpec& spec);

}  // namespace longhaul
