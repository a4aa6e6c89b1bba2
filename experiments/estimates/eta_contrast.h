#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "experiments/estimates/ln_eta.h"

namespace longhaul {

// Sums of ln eta over arms with one interval: a factor such as eta(M,H)/eta(M,1) (weights 1, -1),
// an interaction such as ln eta_both - ln eta_forward - ln eta_backward (1, -1, -1).
struct EtaTerm {
  double weight;
  LossBySeed reference, arm;
};
struct EtaContrast {
  Measured ln;  // t over the seeds that every term has, and the curve's own error
  int64_t seeds = 0;
};
// What the terms share, the seed's luck and its part in the curve, enters once: seeds are carried
// through the whole sum. FailedPrecondition: no seed has every run, or a term lies below the
// smallest reference budget.
absl::StatusOr<EtaContrast> EstimateContrast(const ReferenceCurve& curve,
                                             std::span<const EtaTerm> terms, double level = 0.95);

}  // namespace longhaul
