#pragma once

#include <string>

#include "absl/status/status.h"
#include "experiments/price/price_run.h"

namespace longhaul {

// A pricing as one self-contained page. `python`: an interpreter with matplotlib; without one the
// page says so and has no figures. ResourceExhausted, PermissionDenied: with the path.
absl::Status WritePricePage(const std::string& path, const std::string& python,
                            const PriceInput& input, const PriceOutcome& outcome);

}  // namespace longhaul
