#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/estimates/interval.h"
#include "experiments/record/record_rows.h"

namespace longhaul {

// Rows for the table `estimates`. A quantity without a value: `note` says why.
EstimateRow EstimateWithout(const std::string& arm, const std::string& evaluation,
                            const std::string& quantity, const std::string& unit, int64_t seeds,
                            const std::string& note);

// A value with its interval or, where it has none, a note that says why.
void AddEstimate(std::vector<EstimateRow>& rows, const std::string& arm,
                 const std::string& evaluation, const std::string& quantity,
                 const std::string& unit, const Measured& x, int64_t seeds,
                 const std::string& note);

}  // namespace longhaul
