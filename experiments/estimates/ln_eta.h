#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/reference_curve.h"

namespace longhaul {

// Final loss by seed.
using LossBySeed = std::map<int64_t, double>;

// An arm and what it is compared with: the curve's own D0 runs, or the runs of an arm that has
// every change of this one but the codecs.
struct ArmPair {
  LossBySeed reference, arm;
};

// ln eta of several arms over the same seeds. Both ends of a pair are read off the curve, at their
// mean losses above the D0 runs of the same seeds: an arm far from D0 is judged by the slope there.
// What one seed says is its jackknife pseudo-value, n theta - (n - 1) theta without the seed, with
// its share in the curve; any sum or fit of ln eta is made of these, and their spread over seeds is
// its error.
struct LnEtaRows {
  std::vector<int64_t> seeds;
  std::vector<double> value;                // [pair]; the mean of its pseudo-values
  std::vector<std::vector<double>> pseudo;  // [pair][seed]
  std::vector<double> from, to;             // [pair] ln(D/D0) of the reference and of the arm
};

// FailedPrecondition: no seed of the curve has every run, or a reference lies below the smallest
// budget.
absl::StatusOr<LnEtaRows> LnEtaBySeed(const ReferenceCurve& curve, std::span<const ArmPair> pairs);

// sum_i weights[i] ln eta_i with its interval: t(n - 1) over the seeds, and in quadrature the
// curve's own error. No interval for one seed.
Measured SumOfLnEta(const ReferenceCurve& curve, const LnEtaRows& rows,
                    std::span<const double> weights, double level);

// `x`, an interval over seeds, with a further normal standard error in quadrature.
Measured Widened(Measured x, double standard_error);

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
