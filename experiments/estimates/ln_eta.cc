#include "experiments/estimates/ln_eta.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

// Above the D0 run of the same seed, nat.
struct Above {
  std::vector<double> reference, arm;
};

double MeanWithout(const std::vector<double>& x, size_t skip) {
  double sum = 0;
  for (size_t j = 0; j < x.size(); ++j) sum += j == skip ? 0 : x[j];
  return sum / static_cast<double>(x.size() - 1);
}

}  // namespace

absl::StatusOr<LnEtaRows> LnEtaBySeed(const ReferenceCurve& curve, std::span<const ArmPair> pairs) {
  LnEtaRows out;
  std::vector<size_t> in_curve;
  std::vector<Above> above(pairs.size());
  for (size_t j = 0; j < curve.seeds.size(); ++j) {
    const int64_t seed = curve.seeds[j];
    const bool everywhere = std::all_of(pairs.begin(), pairs.end(), [&](const ArmPair& pair) {
      return pair.reference.contains(seed) && pair.arm.contains(seed);
    });
    if (!everywhere) continue;
    out.seeds.push_back(seed);
    in_curve.push_back(j);
    const double d0 = curve.d0_loss_by_seed.at(seed);
    for (size_t i = 0; i < pairs.size(); ++i) {
      above[i].reference.push_back(pairs[i].reference.at(seed) - d0);
      above[i].arm.push_back(pairs[i].arm.at(seed) - d0);
    }
  }
  if (pairs.empty() || out.seeds.empty()) {
    return absl::FailedPreconditionError("no seed of the reference curve has every run of it");
  }
  const size_t n = out.seeds.size();
  for (const Above& pair : above) {
    out.from.push_back(curve.LnBudget(Mean(pair.reference)));
    out.to.push_back(curve.LnBudget(Mean(pair.arm)));
    if (out.from.back() < std::log(curve.smallest_budget)) {
      return absl::FailedPreconditionError("its reference lies below the smallest budget");
    }
    out.value.push_back(out.to.back() - out.from.back());
    std::vector<double> pseudo(n, out.value.back());
    for (size_t j = 0; n > 1 && j < n; ++j) {
      const double without = curve.LnBudgetWithout(in_curve[j], MeanWithout(pair.arm, j)) -
                             curve.LnBudgetWithout(in_curve[j], MeanWithout(pair.reference, j));
      pseudo[j] -= static_cast<double>(n - 1) * (without - out.value.back());
    }
    // Their mean is off the value by the jackknife's estimate of bias, which has noise of its own.
    const double shift = out.value.back() - Mean(pseudo);
    for (double& value : pseudo) value += shift;
    out.pseudo.push_back(std::move(pseudo));
  }
  return out;
}

Measured Widened(Measured x, double standard_error) {
  if (!x.interval || standard_error == 0) return x;
  const double z = NormalQuantile(0.5 + x.interval->level / 2);
  const double half = std::hypot((x.interval->high - x.interval->low) / 2, z * standard_error);
  x.interval->low = x.value - half;
  x.interval->high = x.value + half;
  return x;
}

Measured SumOfLnEta(const ReferenceCurve& curve, const LnEtaRows& rows,
                    std::span<const double> weights, double level) {
  std::vector<double> sum(rows.seeds.size(), 0.0);
  std::vector<CurveTerm> terms;
  for (size_t i = 0; i < weights.size(); ++i) {
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += weights[i] * rows.pseudo[i][j];
    terms.push_back({weights[i], rows.from[i], rows.to[i]});
  }
  return Widened(MeanWithInterval(sum, level), CurveError(curve, terms));
}

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
