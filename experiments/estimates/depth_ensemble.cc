#include "experiments/estimates/depth_ensemble.h"

#include <algorithm>
#include <cmath>

#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

constexpr DepthModel kMembers[] = {DepthModel::kM1, DepthModel::kM4, DepthModel::kM5};
// A member that hit every depth exactly (losses without noise) would have all the weight.
constexpr double kSmallestSquare = 1e-12;

double MeanSquare(const DepthFit& fit) {
  double squares = 0;
  for (const HeldOut& h : fit.held_out) {
    squares += (h.predicted - h.measured) * (h.predicted - h.measured);
  }
  return squares / static_cast<double>(fit.held_out.size());
}

bool CanStand(const DepthFit& fit) {
  // A note says that the shape is not this one, such as a saturation of negative length.
  return !fit.theta.empty() && !fit.held_out.empty() && fit.note.empty();
}

// Variance over seeds of -ln eta at `k` crossings, by the delta method.
double SeedVariance(const DepthFit& fit, double k) {
  const double x = fit.MinusLnEta(k / 2, k / 2);
  std::vector<double> moved(fit.influence[0].size(), 0.0);
  for (size_t p = 0; p < fit.theta.size(); ++p) {
    DepthFit up = fit;
    const double h = 1e-6 * std::max(std::abs(fit.theta[p]), 1e-3);
    up.theta[p] += h;
    const double slope = (up.MinusLnEta(k / 2, k / 2) - x) / h;
    for (size_t j = 0; j < moved.size(); ++j) moved[j] += slope * fit.influence[p][j];
  }
  return Variance(moved) / static_cast<double>(moved.size());
}

// What the reference curve itself adds to M1's a, per crossing: its interval is wider by it than the
// seeds alone make it. All members stand on the same curve.
double CurveVariancePerCrossing(const DepthFit& m1, double t) {
  if (m1.parameters.empty() || !m1.parameters[0].value.interval) return 0;
  const Interval& interval = *m1.parameters[0].value.interval;
  const double half = (interval.high - interval.low) / 2 / t;
  return std::max(0.0, half * half - SeedVariance(m1, 1));
}

}  // namespace

std::optional<DepthEnsemble> PredictDepths(const DepthComparison& depths, int64_t directions,
                                           int64_t deepest, std::span<const int64_t> stages,
                                           double level) {
  if (depths.seeds < 2) return std::nullopt;
  DepthEnsemble out{.members = {}, .deepest = deepest, .at = {}};
  double sum = 0;
  for (const DepthModel model : kMembers) {
    const DepthFit& fit = depths.Fit(model);
    if (!CanStand(fit)) continue;
    const double square = std::max(MeanSquare(fit), kSmallestSquare);
    out.members.push_back({model, 1 / square, std::sqrt(square)});
    sum += 1 / square;
  }
  if (out.members.empty()) return std::nullopt;
  for (DepthEnsemble::Member& member : out.members) member.weight /= sum;
  const double t = TQuantile(1 - (1 - level) / 2, static_cast<double>(depths.seeds - 1));
  const double of_curve = CurveVariancePerCrossing(depths.Fit(DepthModel::kM1), t);
  for (const int64_t s : stages) {
    const double k = static_cast<double>(directions * (s - 1));
    const double beyond =
        std::max(1.0, static_cast<double>(s - 1) / static_cast<double>(deepest - 1));
    double mean = 0;
    for (const auto& m : out.members)
      mean += m.weight * depths.Fit(m.model).MinusLnEta(k / 2, k / 2);
    double variance = of_curve * k * k;
    for (const auto& m : out.members) {
      const double apart = depths.Fit(m.model).MinusLnEta(k / 2, k / 2) - mean;
      const double off = m.held_out_rms * beyond;
      variance += m.weight * (apart * apart + SeedVariance(depths.Fit(m.model), k) + off * off);
    }
    const double half = t * std::sqrt(variance);
    out.at.push_back({s,
                      std::min(0.0, -mean),
                      {.low = -mean - half,
                       .high = std::min(0.0, -mean + half),
                       .level = level,
                       .method = "ensemble"}});
  }
  return out;
}

}  // namespace longhaul
