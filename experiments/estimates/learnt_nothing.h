#pragma once

#include <string>
#include <vector>

#include "experiments/estimates/campaign_analysis.h"

namespace longhaul {

// A model that has learnt no more than how often each byte occurs says nothing about what was done
// to it. Its loss is then the unigram entropy of what it is evaluated on, which a run that trains
// keeps as a fact (kUnigramFact).

// Nearer than this it has learnt nothing to speak of, whatever the interval.
inline constexpr double kUnigramMarginNat = 0.05;

// One line for each arm of which the better of its two mean losses, codec off and codec on, lies
// above the entropy, within kUnigramMarginNat below it, or so near that its 95 % interval over
// seeds holds it. Empty for records without the fact.
std::vector<std::string> LearntNothing(const CampaignAnalysis& analysis);

// The same of one run: of its last evaluations.
std::vector<std::string> LearntNothing(const RunRow& run,
                                       const std::vector<EvaluationRow>& evaluations);

}  // namespace longhaul
