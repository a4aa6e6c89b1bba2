#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

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

// What a run's settings and data do to its figures. One line each, with the figures; empty where
// nothing is to be said.

// What makes the spread between seeds, and with it every interval, wider than it need be.

// Before training: a warm-up of under 5 % of the steps.
constexpr double kLeastWarmUpShare = kWarmUpShare;
std::vector<std::string> WarmUpAdvice(const RunSpec& spec);

// Before a run: links that are named and that nothing goes over, or of which the simulated clock leaves
// something out.
std::vector<std::string> LinkAdvice(const RunSpec& spec);

// After training, from the runs' facts: a clip_norm that acted in under 5 % of all steps.
constexpr double kLeastClippedShare = 0.05;
std::vector<std::string> ClippingAdvice(std::span<const RunRow> runs);

// From the runs' facts, what makes a held-out loss another figure than that of unseen text: windows
// that are in the training text too, and a training text that is passed more than once. Each line
// once.
std::vector<std::string> DataAdvice(std::span<const RunRow> runs);

}  // namespace longhaul
