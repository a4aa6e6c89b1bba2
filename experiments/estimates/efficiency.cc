#include "experiments/estimates/efficiency.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace longhaul {
namespace {

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

std::string_view ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBelow:
      return "below 0.995";
    case Verdict::kAbove:
      return "above 0.995";
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

Verdict AgainstAssumed(const Measured& q) {
  if (!q.interval) return Verdict::kNoInterval;
  if (q.interval->high < kAssumedQ) return Verdict::kBelow;
  if (q.interval->low > kAssumedQ) return Verdict::kAbove;
  return Verdict::kNotResolved;
}

}  // namespace longhaul
