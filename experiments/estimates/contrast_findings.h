#pragma once

#include "absl/status/status.h"
#include "experiments/estimates/campaign_findings.h"

namespace longhaul {

struct CampaignAnalysis;

// What blocks L and T of a campaign are for, as weighted sums of ln eta with one interval each.
//
// Position (depth model M6, -ln eta = sum over cuts of a(l/L)): arms of one codec pair with one
// boundary each, l/L of the way through the model. Tilt: the slope of -ln eta over l/L; bow: twice
// the coefficient of (l/L - 1/2)^2 beside both; and the model's own test: -ln eta of an arm with
// several cuts less the sum of -ln eta of arms that have each of these cuts alone.
//
// Learning rate: arms of one codec pair and depth against references with the same other rate. The
// slope of ln eta over ln lr; and ln eta with both sides at their best rate, so that a codec that
// wants another rate is not charged for it (the best is chosen by the same losses: it flatters
// both sides by as much as seeds are noisy).
//
// Appends to findings.contrasts.
void CollectContrasts(CampaignAnalysis& analysis);

}  // namespace longhaul
