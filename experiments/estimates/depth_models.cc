#include "experiments/estimates/depth_models.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

constexpr double kPreferredBy = 4;     // AICc
constexpr double kMisses = 2;          // |z|
constexpr double kNoResidual = 1e-24;  // squares a point: losses without noise
constexpr DepthModel kModels[] = {DepthModel::kM1, DepthModel::kM2, DepthModel::kM3,
                                  DepthModel::kM4, DepthModel::kM5};

using Theta = std::span<const double>;

double LossOf(DepthModel model, Theta p, double forward, double backward) {
  const double k = forward + backward;
  switch (model) {
    case DepthModel::kM1:
      return p[0] * k;
    case DepthModel::kM2:
      return p[0] * forward + p[1] * backward;
    case DepthModel::kM3:
      return -std::log1p(-p[0] * k);
    case DepthModel::kM4:
      return k == 0 ? 0 : p[0] * std::pow(k, p[1]);
    case DepthModel::kM5: {
      const double rh = p[1] * k / 2;
      return p[0] * k / 2 * (std::abs(rh) < 1e-8 ? 1 - rh / 2 : -std::expm1(-rh) / rh);
    }
  }
  return 0;
}

std::vector<std::string> Names(DepthModel model) {
  switch (model) {
    case DepthModel::kM1:
      return {"a"};
    case DepthModel::kM2:
      return {"a_f", "a_b"};
    case DepthModel::kM3:
      return {"b"};
    case DepthModel::kM4:
      return {"a", "gamma"};
    case DepthModel::kM5:
      return {"c", "1/tau"};
  }
  return {};
}

// -ln eta of the seeds that have every one of `arms`; the reference, whose is 0, is point 0.
struct DepthData {
  const ReferenceCurve& curve;
  std::vector<const DepthArm*> arms;
  std::vector<std::pair<double, double>> places;  // from, to on the curve; of points, as rows
  SeedRows rows;

  double MeanOf(size_t point) const {
    double sum = 0;
    for (const std::vector<double>& row : rows.y) sum += row[point];
    return sum / static_cast<double>(rows.y.size());
  }
  // Standard error that the curve itself adds to a sum over points of weight times -ln eta.
  double OnCurve(std::span<const double> weights) const {
    std::vector<CurveTerm> terms;
    for (size_t i = 0; i < weights.size(); ++i) {
      terms.push_back({-weights[i], places[i].first, places[i].second});
    }
    return CurveError(curve, terms);
  }
};

DepthData CollectRows(const ReferenceCurve& curve, const LossBySeed& reference,
                      std::vector<const DepthArm*> arms) {
  DepthData data{curve, std::move(arms), {{0, 0}}, {}};
  std::vector<ArmPair> pairs;
  for (const DepthArm* arm : data.arms) pairs.push_back({reference, arm->loss_by_seed});
  const absl::StatusOr<LnEtaRows> ln_eta = LnEtaBySeed(curve, pairs);
  if (!ln_eta.ok()) return data;
  for (size_t i = 0; i < pairs.size(); ++i)
    data.places.emplace_back(ln_eta->from[i], ln_eta->to[i]);
  for (size_t j = 0; j < ln_eta->seeds.size(); ++j) {
    data.rows.y.push_back({0});
    for (const std::vector<double>& pseudo : ln_eta->pseudo) {
      data.rows.y.back().push_back(-pseudo[j]);
    }
  }
  return data;
}

// The fit's own points: those of `data` whose depth is not in `without`, and the reference. `kept`:
// which points of `data` they are.
DepthData Subset(const DepthData& data, const std::set<int64_t>& without,
                 std::vector<size_t>* kept) {
  DepthData out{data.curve, {}, {data.places[0]}, {}};
  *kept = {0};
  for (size_t i = 0; i < data.arms.size(); ++i) {
    if (without.contains(data.arms[i]->stages)) continue;
    out.arms.push_back(data.arms[i]);
    out.places.push_back(data.places[i + 1]);
    kept->push_back(i + 1);
  }
  for (const std::vector<double>& row : data.rows.y) {
    out.rows.y.emplace_back();
    for (const size_t point : *kept) out.rows.y.back().push_back(row[point]);
  }
  return out;
}

// a of M1 by the deepest arm alone: where every fit starts.
double Roughly(const DepthData& data, double* deepest) {
  double a = 0;
  *deepest = 0;
  for (size_t i = 0; i < data.arms.size(); ++i) {
    const double k = static_cast<double>(data.arms[i]->forward + data.arms[i]->backward);
    if (k <= *deepest) continue;
    *deepest = k;
    a = data.MeanOf(i + 1) / k;
  }
  return a;
}

std::vector<std::vector<double>> Starts(DepthModel model, const DepthData& data) {
  double deepest;
  const double a = Roughly(data, &deepest);
  switch (model) {
    case DepthModel::kM1:
    case DepthModel::kM3:
      return {{std::min(a, 0.5 / deepest)}};
    case DepthModel::kM2:
      return {{a, a}};
    case DepthModel::kM4: {
      std::vector<std::vector<double>> starts;
      for (const double gamma : {1.0, 0.5, 1.5}) {
        starts.push_back({a * std::pow(deepest, 1 - gamma), gamma});
      }
      return starts;
    }
    case DepthModel::kM5:
      return {{2 * a, 1e-3}, {4 * a, 4 / deepest}};
  }
  return {};
}

absl::StatusOr<SeedRegression> FitModel(DepthModel model, const DepthData& data) {
  // A power or an asymptote needs two depths; one through one point is no model.
  std::set<int64_t> depths;
  for (const DepthArm* arm : data.arms) depths.insert(arm->forward + arm->backward);
  const bool bends = model == DepthModel::kM4 || model == DepthModel::kM5;
  if (depths.empty() || (bends && depths.size() < 2)) {
    return absl::FailedPreconditionError("too few depths");
  }
  const PointModel at = [&](Theta theta) {
    std::vector<double> m = {0};
    for (const DepthArm* arm : data.arms) {
      m.push_back(LossOf(model, theta, static_cast<double>(arm->forward),
                         static_cast<double>(arm->backward)));
    }
    return m;
  };
  absl::StatusOr<SeedRegression> best = absl::FailedPreconditionError("no start");
  for (std::vector<double>& start : Starts(model, data)) {
    absl::StatusOr<SeedRegression> fit = FitOverSeeds(data.rows, at, std::move(start));
    if (!best.ok() || (fit.ok() && fit->residual_squares < best->residual_squares)) {
      best = std::move(fit);
    }
  }
  return best;
}

double Aicc(double squares, double points, double unknowns, bool* defined) {
  const double spare = points - unknowns - 1;
  *defined = spare > 0;
  return points * std::log(std::max(squares / points, kNoResidual)) + 2 * unknowns +
         2 * unknowns * (unknowns + 1) / spare;
}

// z of point i + 1 of `data`, predicted by `fit` of the points `kept`, whose seeds are the same.
HeldOut PredictOne(DepthModel model, const SeedRegression& fit, const DepthData& data,
                   const std::vector<size_t>& kept, size_t i) {
  const DepthArm& arm = *data.arms[i];
  const double f = static_cast<double>(arm.forward), b = static_cast<double>(arm.backward);
  const double x = LossOf(model, fit.theta, f, b), measured = data.MeanOf(i + 1);
  HeldOut out{arm.stages, arm.forward + arm.backward, x, measured, 0, arm.forward, arm.backward};
  std::vector<double> by_parameter;
  for (size_t p = 0; p < fit.theta.size(); ++p) {
    std::vector<double> up = fit.theta;
    const double h = 1e-6 * std::max(std::abs(up[p]), 1e-3);
    up[p] += h;
    by_parameter.push_back((LossOf(model, up, f, b) - x) / h);
  }
  // What each seed moves the difference by: through the parameters and through its own losses.
  std::vector<double> moved;
  for (const std::vector<double>& row : data.rows.y) {
    moved.push_back(measured - row[i + 1] + row[0]);
  }
  std::vector<double> weights(data.arms.size() + 1, 0.0);
  weights[i + 1] = -1;
  for (size_t p = 0; p < fit.theta.size(); ++p) {
    for (size_t j = 0; j < moved.size(); ++j) moved[j] += by_parameter[p] * fit.influence[p][j];
    for (size_t n = 0; n < kept.size(); ++n) {
      weights[kept[n]] += by_parameter[p] * fit.by_point[p][n];
    }
  }
  const double se = std::hypot(std::sqrt(Variance(moved) / static_cast<double>(moved.size())),
                               data.OnCurve(weights));
  constexpr double kNothing = 1e-9;
  if (se < kNothing) {
    const double infinite = std::copysign(std::numeric_limits<double>::infinity(), x - measured);
    out.z = std::abs(x - measured) < kNothing ? 0 : infinite;
  } else {
    out.z = (x - measured) / se;
  }
  return out;
}

// Predicts every arm with `stages` from a fit of the arms without them and without `never`.
void HoldOut(const DepthData& data, int64_t stages, const std::set<int64_t>& never, DepthFit& out) {
  if (data.rows.y.size() < 2) return;  // no standard error
  std::set<int64_t> without = never;
  without.insert(stages);
  std::vector<size_t> kept;
  const absl::StatusOr<SeedRegression> fit = FitModel(out.model, Subset(data, without, &kept));
  if (!fit.ok()) return;
  for (size_t i = 0; i < data.arms.size(); ++i) {
    if (data.arms[i]->stages != stages) continue;
    HeldOut held = PredictOne(out.model, *fit, data, kept, i);
    if (std::isfinite(held.predicted)) out.held_out.push_back(held);
  }
}

DepthFit FitOne(DepthModel model, const DepthData& data, double level) {
  DepthFit out{.model = model};
  absl::StatusOr<SeedRegression> fit = FitModel(model, data);
  if (!fit.ok()) {
    out.note = std::string(fit.status().message());
    return out;
  }
  const double points = static_cast<double>(data.rows.y.size() * (data.arms.size() + 1));
  const double unknowns =
      static_cast<double>(fit->theta.size() + data.rows.y.size()) + 1;  // and the variance
  bool defined = false;
  const double aicc = Aicc(fit->residual_squares, points, unknowns, &defined);
  if (defined) out.aicc = aicc;
  if (model == DepthModel::kM5 && fit->theta[1] <= 0) {
    out.note = "does not saturate in these data";
  }
  out.theta = fit->theta;
  out.influence = fit->influence;
  const std::vector<std::string> names = Names(model);
  for (size_t p = 0; p < names.size(); ++p) {
    out.parameters.push_back(
        {names[p], Widened(fit->Parameter(p, level), data.OnCurve(fit->by_point[p]))});
  }
  return out;
}

// Saturation with a negative length is no saturation.
bool Eligible(const DepthFit& fit) { return fit.aicc && fit.note.empty() && !fit.Misses(); }

void Choose(DepthComparison& c) {
  const DepthFit& first = c.Fit(DepthModel::kM1);
  const DepthFit* best = &first;
  for (const DepthFit& fit : c.fits) {
    if (!Eligible(fit) || !first.aicc || *first.aicc - *fit.aicc <= kPreferredBy) continue;
    if (best == &first || *fit.aicc < *best->aicc) best = &fit;
  }
  c.chosen = best->model;
  for (const DepthFit& fit : c.fits) {
    if (fit.model == c.chosen || !Eligible(fit) || !best->aicc) continue;
    if (*fit.aicc - *best->aicc <= kPreferredBy) c.alike.push_back(fit.model);
  }
}

}  // namespace

std::string_view ToString(DepthModel model) {
  constexpr std::string_view kNames[] = {"M1", "M2", "M3", "M4", "M5"};
  return kNames[static_cast<size_t>(model)];
}

bool DepthFit::Misses() const {
  return std::any_of(held_out.begin(), held_out.end(),
                     [](const HeldOut& h) { return std::abs(h.z) > kMisses; });
}

double DepthFit::MinusLnEta(double forward, double backward) const {
  return LossOf(model, theta, forward, backward);
}

std::optional<Measured> DepthComparison::gamma() const {
  const DepthFit& fit = Fit(DepthModel::kM4);
  if (fit.parameters.empty() || !fit.parameters[1].value.interval) return std::nullopt;
  return fit.parameters[1].value;
}

std::optional<Measured> DepthComparison::PerBoundary(int64_t directions, double level) const {
  const DepthFit& fit = Fit(DepthModel::kM4);
  if (!gamma()) return std::nullopt;
  const double d = static_cast<double>(directions), scale = std::pow(d, fit.theta[1]);
  std::vector<double> moved;
  for (size_t j = 0; j < fit.influence[0].size(); ++j) {
    moved.push_back(scale *
                    (fit.influence[0][j] + fit.theta[0] * std::log(d) * fit.influence[1][j]));
  }
  return FromInfluence(fit.theta[0] * scale, moved, level);
}

std::optional<double> DepthComparison::BendP() const {
  const DepthFit& fit = Fit(DepthModel::kM4);
  if (fit.theta.empty() || seeds < 2) return std::nullopt;
  std::vector<double> bend;  // its mean is gamma - 1, its spread that of gamma over seeds
  for (const double moved : fit.influence[1]) bend.push_back(fit.theta[1] - 1 + moved);
  return PairedP(bend);
}

std::string DepthComparison::Words() const {
  const DepthFit &first = Fit(DepthModel::kM1), &best = Fit(chosen);
  std::vector<std::string> names;
  for (const DepthModel model : alike) names.emplace_back(ToString(model));
  const std::string others =
      names.empty() ? "" : fmt::format("{} cannot be told apart from it", fmt::join(names, ", "));
  if (!first.aicc) return "M1 stands: too few seeds or depths to compare models";
  if (chosen != DepthModel::kM1) {
    return fmt::format("{} is preferred to M1: AICc lower by {:.1f}, no held-out |z| above 2{}{}",
                       ToString(chosen), *first.aicc - *best.aicc, others.empty() ? "" : "; ",
                       others);
  }
  if (first.Misses()) {
    return fmt::format("M1 misses a held-out depth and no model is preferred to it{}{}",
                       others.empty() ? "" : "; by AICc ", others);
  }
  return "M1 stands" + (others.empty() ? "" : "; " + others);
}

absl::StatusOr<DepthComparison> CompareDepths(const ReferenceCurve& curve,
                                              const LossBySeed& reference,
                                              std::span<const DepthArm> arms, double level) {
  std::vector<const DepthArm*> fitted, all;
  std::set<int64_t> depths, far;
  const bool shallow = std::any_of(arms.begin(), arms.end(),
                                   [](const DepthArm& arm) { return arm.stages < kHeldOutStages; });
  for (const DepthArm& arm : arms) {
    all.push_back(&arm);
    if (shallow && arm.stages >= kHeldOutStages) {
      far.insert(arm.stages);
      continue;
    }
    fitted.push_back(&arm);
    depths.insert(arm.stages);
  }
  if (depths.size() < 2) {
    return absl::FailedPreconditionError("fewer than two depths: there is no shape to compare");
  }
  const DepthData data = CollectRows(curve, reference, fitted);
  if (data.rows.y.empty()) {
    return absl::FailedPreconditionError("no seed has every depth of this codec");
  }
  // Beyond the fit only the seeds that went there can be held against it.
  const DepthData beyond =
      far.empty() ? DepthData{curve, {}, {}, {}} : CollectRows(curve, reference, all);
  DepthComparison out{.seeds = static_cast<int64_t>(data.rows.y.size())};
  for (const DepthModel model : kModels) {
    DepthFit fit = FitOne(model, data, level);
    if (!fit.theta.empty()) {
      for (const int64_t stages : depths) {
        if (stages != *depths.begin()) HoldOut(data, stages, {}, fit);
      }
      for (const int64_t stages : far) HoldOut(beyond, stages, far, fit);
    }
    out.fits.push_back(std::move(fit));
  }
  Choose(out);
  return out;
}

}  // namespace longhaul
