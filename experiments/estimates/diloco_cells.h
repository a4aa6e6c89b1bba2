#pragma once

#include <vector>

#include "experiments/estimates/diloco_findings.h"

namespace longhaul {

// The arms of a campaign that have an outer step, against the D0 reference, and nothing else that
// the planner's product has no factor for. Arms whose global batch is another than the reference's
// are none: their loss would be M and batch size in one.
std::vector<DilocoCell> FindDilocoCells(const CampaignAnalysis& analysis);
std::vector<OuterArm> FindOuterArms(const CampaignAnalysis& analysis);

}  // namespace longhaul
