#include "experiments/estimates/efficiency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

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

template <typename Map>
Measured Mapped(const Measured& x, Map decreasing_or_not) {
  Measured out = x;
  out.value = decreasing_or_not(x.value);
  if (!x.interval) return out;
  const double a = decreasing_or_not(x.interval->low), b = decreasing_or_not(x.interval->high);
  out.interval->low = std::min(a, b);
  out.interval->high = std::max(a, b);
  return out;
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

std::string_view ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBelow:
      return "below 0.995";
    case Verdict::kAbove:
      return "above 0.995";
    case Verdict::kBelowOneWay:
      return "below 0.990 per boundary";
    case Verdict::kAboveOneWay:
      return "above 0.990 per boundary";
    case Verdict::kNotResolved:
      return "not resolved";
    case Verdict::kNoInterval:
      return "no interval";
    case Verdict::kDiverged:
      return "diverged";
    case Verdict::kIncomplete:
      return "incomplete";
    case Verdict::kNoConclusion:
      return "no conclusion";
    case Verdict::kNoQ:
      return "no q";
  }
  return "";
}

Measured CutBelow(double floor, Measured x) {
  constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  if (x.value < floor) {
    x.bound = Bound::kUpper;
    x.value = floor;
    if (!x.interval) return x;
    x.value = x.interval->high = std::max(x.interval->high, floor);
    x.interval->low = kUnknown;
    return x;
  }
  if (x.interval && x.interval->low < floor) {
    x.interval->low = floor;
    x.bound = Bound::kLowEnd;
  }
  return x;
}

absl::StatusOr<Efficiency> EstimateArm(const ReferenceCurve& curve, const LossBySeed& reference,
                                       const LossBySeed& arm, int64_t crossings, double level) {
  const ArmPair pair{reference, arm};
  const absl::StatusOr<LnEtaRows> rows = LnEtaBySeed(curve, std::span(&pair, 1));
  if (!rows.ok()) return rows.status();
  Efficiency e{.crossings = crossings, .seeds = static_cast<int64_t>(rows->seeds.size())};
  std::vector<double> deltas;
  for (const int64_t seed : rows->seeds) {
    deltas.push_back(arm.at(seed) - reference.at(seed));
    e.delta_by_seed.emplace_back(seed, deltas.back());
  }
  e.sd_delta_nat = std::sqrt(Variance(deltas));
  e.delta_nat = MeanWithInterval(deltas, level);
  const double one[] = {1};
  const double floor = std::log(curve.smallest_budget) - rows->from.front();
  e.ln_eta = CutBelow(floor, SumOfLnEta(curve, *rows, one, level));
  e.eta = Mapped(e.ln_eta, [](double ln_eta) { return std::exp(ln_eta); });
  if (crossings == 0) return e;
  const double k = static_cast<double>(crossings);
  e.q = Mapped(e.ln_eta, [k](double ln_eta) { return std::exp(ln_eta / k); });
  if (const Measured narrow = SumOfLnEta(curve, *rows, one, 0.90); narrow.interval) {
    const double margin = kEquivalenceMargin * k;
    e.equivalent = narrow.interval->low > -margin && narrow.interval->high < margin;
  }
  return e;
}

std::optional<Measured> DeltaWithoutEta(const LossBySeed& reference, const LossBySeed& arm,
                                        double level) {
  std::vector<double> deltas;
  for (const auto& [seed, loss] : arm) {
    const auto found = reference.find(seed);
    if (found != reference.end()) deltas.push_back(loss - found->second);
  }
  if (deltas.empty()) return std::nullopt;
  return MeanWithInterval(deltas, level);
}

absl::StatusOr<JointEstimate> EstimateJoint(const ReferenceCurve& curve,
                                            const LossBySeed& reference,
                                            std::span<const DepthPoint> arms, double level) {
  std::vector<ArmPair> pairs;
  std::vector<double> k = {0};  // the reference itself
  for (const DepthPoint& arm : arms) {
    pairs.push_back({reference, arm.loss_by_seed});
    k.push_back(static_cast<double>(arm.crossings));
  }
  const absl::StatusOr<LnEtaRows> rows = LnEtaBySeed(curve, pairs);
  if (!rows.ok() || Variance(k) == 0) {
    return absl::FailedPreconditionError("no seed has every depth of this codec");
  }
  // Least squares of -ln eta on K, as weights of the arms' ln eta. That of the reference is 0.
  const double mean = Mean(k), squares = Variance(k) * static_cast<double>(k.size() - 1);
  std::vector<double> weights;
  JointEstimate out{.a = {}, .q = {}, .seeds = static_cast<int64_t>(rows->seeds.size())};
  for (size_t i = 0; i < arms.size(); ++i) {
    weights.push_back(-(k[i + 1] - mean) / squares);
    out.on_curve.push_back({weights[i], rows->from[i], rows->to[i]});
  }
  out.a = SumOfLnEta(curve, *rows, weights, level);
  for (size_t j = 0; j < rows->seeds.size(); ++j) {
    double moved = -out.a.value;
    for (size_t i = 0; i < arms.size(); ++i) moved += weights[i] * rows->pseudo[i][j];
    out.influence.push_back(moved);
  }
  // q of the smallest budget at the deepest arm: below it the fit stands on nothing measured.
  const double deepest = *std::max_element(k.begin(), k.end());
  const double floor = std::exp((std::log(curve.smallest_budget) - rows->from.front()) / deepest);
  if (std::exp(-out.a.value) < floor) {
    return absl::FailedPreconditionError(
        fmt::format("the fit at K = {} lies below the smallest reference budget", deepest));
  }
  out.q = CutBelow(floor, Mapped(out.a, [](double value) { return std::exp(-value); }));
  return out;
}

double AssumedQ(int64_t directions) { return directions == 1 ? kAssumedQ * kAssumedQ : kAssumedQ; }

Verdict AgainstAssumed(const Measured& q, int64_t directions) {
  if (!q.interval) return Verdict::kNoInterval;
  const bool one_way = directions == 1;
  if (q.interval->high < AssumedQ(directions)) {
    return one_way ? Verdict::kBelowOneWay : Verdict::kBelow;
  }
  if (q.interval->low > AssumedQ(directions)) {
    return one_way ? Verdict::kAboveOneWay : Verdict::kAbove;
  }
  return Verdict::kNotResolved;
}

}  // namespace longhaul
