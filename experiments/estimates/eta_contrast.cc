#include "experiments/estimates/eta_contrast.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

struct Paired {
  std::vector<double> slopes;
  std::vector<std::vector<double>> deltas;  // [term][seed]
};

Paired PairSeeds(const ReferenceCurve& curve, std::span<const EtaTerm> terms) {
  Paired out;
  out.deltas.resize(terms.size());
  for (const auto& [seed, slope] : curve.slope_by_seed) {
    const bool everywhere = std::all_of(terms.begin(), terms.end(), [&](const EtaTerm& term) {
      return term.reference.contains(seed) && term.arm.contains(seed);
    });
    if (!everywhere) continue;
    out.slopes.push_back(slope);
    for (size_t t = 0; t < terms.size(); ++t) {
      out.deltas[t].push_back(terms[t].arm.at(seed) - terms[t].reference.at(seed));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<EtaContrast> EstimateContrast(const ReferenceCurve& curve,
                                             std::span<const EtaTerm> terms, double level) {
  const Paired paired = PairSeeds(curve, terms);
  if (terms.empty() || paired.slopes.empty()) {
    return absl::FailedPreconditionError("no seed has every run of it");
  }
  const double s = Mean(paired.slopes);
  bool exact = false;
  for (const std::vector<double>& deltas : paired.deltas) {
    exact |= curve.Exact(Mean(deltas) / s);
  }
  double value = 0;
  std::vector<double> influence(paired.slopes.size(), 0.0);
  for (size_t t = 0; t < terms.size(); ++t) {
    const double r = Mean(paired.deltas[t]) / s;
    const double inside = 1 + curve.beta * r;
    if (inside <= 0) {
      return absl::FailedPreconditionError("a term lies below the curve's floor");
    }
    const double ln_eta = exact ? -std::log(inside) / curve.beta : -r;
    if (ln_eta < std::log(curve.smallest_budget)) {
      return absl::FailedPreconditionError("a term lies below the smallest reference budget");
    }
    const double by_r = exact ? -1 / inside : -1.0;
    value += terms[t].weight * ln_eta;
    for (size_t j = 0; j < influence.size(); ++j) {
      influence[j] += terms[t].weight * by_r * (paired.deltas[t][j] - r * paired.slopes[j]) / s;
    }
  }
  return EtaContrast{FromInfluence(value, influence, level),
                     static_cast<int64_t>(paired.slopes.size())};
}

}  // namespace longhaul
