#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/record/record_rows.h"

namespace longhaul {

struct CampaignAnalysis;

// Rows of the table `estimates`.
void AddDilocoRows(const CampaignAnalysis& analysis, std::vector<EstimateRow>& rows);
// eta_diloco (every cell), eta_outer (every algorithm), eta_H, eta_r, eta_c, interaction and power_of_H of longhaul.calibration/1; what
// has no interval is left out.
void AddDilocoCalibration(const CampaignAnalysis& analysis, nlohmann::json& calibration);

}  // namespace longhaul
