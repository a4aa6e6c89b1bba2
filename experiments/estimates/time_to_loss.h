#pragma once

#include "absl/status/status.h"
#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {

// A training loss of single steps is noise around its trend: it is reached at the first step from
// which the mean of so many steps back, over groups, is at or below it.
inline constexpr int64_t kStepsOfALoss = 20;

// Fills findings.times_to_loss: of every arm and of the reference at D0 whose runs have a simulated
// clock, when it reaches the loss that the plan states. Nothing where the plan states none.
absl::Status CollectTimesToLoss(const Record& record, CampaignAnalysis& analysis);

}  // namespace longhaul
