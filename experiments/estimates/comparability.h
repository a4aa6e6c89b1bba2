#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {

// What two losses must have in common before there is a difference between them.

// One content of every file, or no figure: fills mixed_files, and with it every arm's note.
absl::Status RefuseMixed(const Record& record, CampaignAnalysis& a);

// Why the held-out losses of two arms were taken of different texts: the settings in which they
// differ; "": they were not. Other training data are no reason where the held-out text is the same.
std::string OtherText(const ArmResult& reference, const ArmResult& arm);

// What can be said of it before anything is trained, by the specs alone: a line for each arm that
// will have no eta.
std::vector<std::string> OtherTextAdvice(const CampaignSpec& campaign);

}  // namespace longhaul
