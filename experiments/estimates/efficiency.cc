#include "experiments/estimates/efficiency.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "experiments/estimates/student_t.h"

namespace longhaul {
namespace {

// r = delta / s. Decreasing in r.
double LnEta(double r, double beta, bool exact) {
  if (!exact) return -r;
  const double inside = 1 + beta * r;
  // Below the curve's floor E no budget reaches that loss.
  if (inside <= 0) return std::numeric_limits<double>::infinity();
  return -std::log(inside) / beta;
}

template <typename Map>
Measured Mapped(const Measured& x, Map decreasing_or_not) {
  Measured out = x;
  out.value = decreasing_or_not(x.value);
  for (std::optional<Interval>* interval : {&out.interval, &out.bootstrap}) {
    if (!*interval) continue;
    const double a = decreasing_or_not((*interval)->low), b = decreasing_or_not((*interval)->high);
    (*interval)->low = std::min(a, b);
    (*interval)->high = std::max(a, b);
  }
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
    x.bootstrap.reset();
    if (!x.interval) return x;
    x.value = x.interval->high = std::max(x.interval->high, floor);
    x.interval->low = kUnknown;
    return x;
  }
  if (x.bootstrap && x.bootstrap->low < floor) x.bootstrap.reset();
  if (x.interval && x.interval->low < floor) {
    x.interval->low = floor;
    x.bound = Bound::kLowEnd;
  }
  return x;
}

absl::StatusOr<Efficiency> EstimateArm(const ReferenceCurve& curve, const LossBySeed& reference,
                                       const LossBySeed& arm, int64_t crossings, double level) {
  Efficiency e{.crossings = crossings};
  std::vector<double> deltas, slopes;
  for (const auto& [seed, loss] : arm) {
    const auto partner = reference.find(seed);
    const auto slope = curve.slope_by_seed.find(seed);
    if (partner == reference.end() || slope == curve.slope_by_seed.end()) continue;
    deltas.push_back(loss - partner->second);
    slopes.push_back(slope->second);
    e.delta_by_seed.emplace_back(seed, deltas.back());
  }
  if (deltas.empty()) {
    return absl::FailedPreconditionError("no seed of this arm has its reference run");
  }
  e.seeds = static_cast<int64_t>(deltas.size());
  e.sd_delta_nat = std::sqrt(Variance(deltas));
  e.delta_nat = MeanWithInterval(deltas, level);
  Measured ratio = RatioOfMeans(deltas, slopes, level);
  // With one seed more in the reference than in the arm the curve's own slope is the better one.
  const double scale = Mean(slopes) / curve.slope_nat;
  ratio = Mapped(ratio, [&](double r) { return r * scale; });
  e.exact = curve.Exact(ratio.value);
  const double floor = std::log(curve.smallest_budget);
  e.ln_eta =
      CutBelow(floor, Mapped(ratio, [&](double r) { return LnEta(r, curve.beta, e.exact); }));
  e.eta = Mapped(e.ln_eta, [](double ln_eta) { return std::exp(ln_eta); });
  const auto eta_at = [&](double beta, double slope) {
    const double ln_eta = LnEta(e.delta_nat.value / slope, beta, e.exact);
    return CutBelow(curve.smallest_budget, {std::exp(ln_eta), {}});
  };
  e.eta_at_beta_low = eta_at(kBetaLow, curve.slope_at_beta_low);
  e.eta_at_beta_high = eta_at(kBetaHigh, curve.slope_at_beta_high);
  if (crossings == 0) return e;
  const double k = static_cast<double>(crossings);
  e.q = Mapped(e.ln_eta, [k](double ln_eta) { return std::exp(ln_eta / k); });
  if (const Measured narrow = RatioOfMeans(deltas, slopes, 0.90); narrow.interval) {
    const double margin = kEquivalenceMargin * k;
    e.equivalent = scale * narrow.interval->low > -margin && scale * narrow.interval->high < margin;
  }
  return e;
}

namespace {

// One joint fit: losses[j][i] of seed j at depth i (depth 0: the reference).
struct JointFit {
  double beta;
  bool exact;
  std::vector<double> crossings;
  std::vector<double> mean_loss;
  double slope;

  double M(double a, double k) const { return exact ? (std::exp(beta * a * k) - 1) / beta : a * k; }
  double DmDa(double a, double k) const { return exact ? k * std::exp(beta * a * k) : k; }

  // Regressor of a, centred: seed effects take the mean away.
  std::vector<double> Centred(double a) const {
    std::vector<double> z;
    for (const double k : crossings) z.push_back(DmDa(a, k));
    const double mean = Mean(z);
    for (double& value : z) value -= mean;
    return z;
  }
  // Gauss-Newton; one step when the model is linear.
  double Solve(double a) const {
    for (int i = 0; i < 50; ++i) {
      const double step = StepFrom(a, mean_loss, slope);
      a += step;
      if (std::abs(step) < 1e-14) break;
    }
    return a;
  }
  double StepFrom(double a, const std::vector<double>& loss, double s) const {
    const std::vector<double> z = Centred(a);
    double zy = 0, zz = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      zy += z[i] * (loss[i] - s * M(a, crossings[i]));
      zz += z[i] * z[i];
    }
    return zy / (s * zz);
  }
};

}  // namespace

absl::StatusOr<JointEstimate> EstimateJoint(const ReferenceCurve& curve,
                                            const LossBySeed& reference,
                                            std::span<const DepthPoint> arms, double level) {
  std::vector<std::vector<double>> losses;
  std::vector<double> slopes;
  for (const auto& [seed, reference_loss] : reference) {
    if (!curve.slope_by_seed.contains(seed)) continue;
    std::vector<double> row = {reference_loss};
    for (const DepthPoint& arm : arms) {
      const auto loss = arm.loss_by_seed.find(seed);
      if (loss != arm.loss_by_seed.end()) row.push_back(loss->second);
    }
    if (row.size() != arms.size() + 1) continue;
    losses.push_back(std::move(row));
    slopes.push_back(curve.slope_by_seed.at(seed));
  }
  JointFit fit{.beta = curve.beta, .exact = false, .crossings = {0}, .mean_loss = {}, .slope = 0};
  for (const DepthPoint& arm : arms) fit.crossings.push_back(static_cast<double>(arm.crossings));
  if (losses.empty() || Variance(fit.crossings) == 0) {
    return absl::FailedPreconditionError("no seed has every depth of this codec");
  }
  fit.slope = Mean(slopes);
  for (size_t i = 0; i < fit.crossings.size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& row : losses) sum += row[i];
    fit.mean_loss.push_back(sum / static_cast<double>(losses.size()));
  }
  for (const double loss : fit.mean_loss) {
    fit.exact |= curve.Exact((loss - fit.mean_loss[0]) / fit.slope);
  }
  const double a = fit.Solve(0);
  const double deepest = *std::max_element(fit.crossings.begin(), fit.crossings.end());
  // q of the smallest budget at the deepest arm: below it the fit stands on nothing measured.
  const double floor = std::pow(curve.smallest_budget, 1 / deepest);
  if (std::exp(-a) < floor) {
    return absl::FailedPreconditionError(
        fmt::format("the fit at K = {} lies below the smallest reference budget", deepest));
  }
  // Per-seed values whose mean is a: the linearised estimate from the seed's own losses and slope.
  // y = their numerator, x = slope, so that the shared D0 runs couple both as they should.
  std::vector<double> numerators;
  for (size_t j = 0; j < losses.size(); ++j) {
    const std::vector<double> z = fit.Centred(a);
    double zy = 0, zz = 0, zm = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      zy += z[i] * losses[j][i];
      zz += z[i] * z[i];
      zm += z[i] * fit.M(a, fit.crossings[i]);
    }
    numerators.push_back((zy - slopes[j] * (zm - a * zz)) / zz);  // mean / mean(slopes) = a
  }
  JointEstimate out{.a = RatioOfMeans(numerators, slopes, level),
                    .q = {},
                    .seeds = static_cast<int64_t>(losses.size())};
  for (size_t j = 0; j < numerators.size(); ++j) {
    out.influence.push_back((numerators[j] - out.a.value * slopes[j]) / fit.slope);
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
