#include "experiments/estimates/eta_contrast.h"

#include <cmath>
#include <vector>

namespace longhaul {

absl::StatusOr<EtaContrast> EstimateContrast(const ReferenceCurve& curve,
                                             std::span<const EtaTerm> terms, double level) {
  std::vector<ArmPair> pairs;
  std::vector<double> weights;
  for (const EtaTerm& term : terms) {
    pairs.push_back({term.reference, term.arm});
    weights.push_back(term.weight);
  }
  const absl::StatusOr<LnEtaRows> rows = LnEtaBySeed(curve, pairs);
  if (!rows.ok()) return rows.status();
  for (const double to : rows->to) {
    if (to < std::log(curve.smallest_budget)) {
      return absl::FailedPreconditionError("a term lies below the smallest reference budget");
    }
  }
  return EtaContrast{SumOfLnEta(curve, *rows, weights, level),
                     static_cast<int64_t>(rows->seeds.size())};
}

}  // namespace longhaul
