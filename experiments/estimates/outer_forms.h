#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/estimates/seed_regression.h"

namespace longhaul {

struct CampaignAnalysis;

// One way that a quantity may depend on H or on M, fitted over seeds with an effect of each.
struct OuterForm {
  std::string name;  // "1 - alpha log10 H"
  std::vector<std::pair<std::string, Measured>> parameters = {};
  std::optional<double> aicc = std::nullopt;  // seed effects counted; nullopt: too few points
  std::string note = {};                      // why it was not fitted
};

// The forms of one quantity. None is preferred unless its AICc is lower by more than 4.
struct OuterForms {
  std::string what;  // "-ln eta over H at M = 4"
  int64_t seeds = 0;
  std::vector<OuterForm> forms = {};
  std::string Words() const;
};

// y[seed][point] at x[point] > 0, seed effects taken out.
//   kInnerSteps: y = -ln eta; no trend (0), H^-alpha (alpha ln H), 1 - alpha log10 H
//   kReplicas:   y = ln loss; no trend (0), beta ln M, beta ln M + c (ln M)^2
enum class OuterAxis { kInnerSteps, kReplicas };
OuterForms CompareOuterForms(OuterAxis axis, std::string what, std::span<const double> x,
                             const std::vector<std::vector<double>>& y);

// Over the cells of a campaign: one for each M with three H or more, and one for each H with three
// M or more; over M of groups that share the batch alone, as M and batch size would be one else. An
// eta below the smallest reference budget gives none.
std::vector<OuterForms> FitOuterForms(const CampaignAnalysis& analysis);

}  // namespace longhaul
