#pragma once

#include <vector>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/table.h"

namespace longhaul {

// What a campaign's families say together, each finding once: for the campaign's table
// (campaign_table.cc), for the report's page and for whatever else shows them. In the order in which
// they are read; tables without rows are left out. Empty where a control failed: an instrument in
// doubt tells no models apart.
std::vector<Table> FindingsTables(const CampaignAnalysis& analysis);

}  // namespace longhaul
