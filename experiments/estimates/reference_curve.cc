#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "experiments/estimates/efficiency.h"

namespace longhaul {
namespace {

// Least squares of y on z with an intercept.
struct StraightLine {
  double intercept, slope;
};
StraightLine FitLine(std::span<const double> z, std::span<const double> y) {
  const double slope = Covariance(z, y) / Variance(z);
  return {Mean(y) - slope * Mean(z), slope};
}

struct Points {
  std::vector<double> budgets, losses;
};

std::vector<double> Powers(const std::vector<double>& budgets, double beta) {
  std::vector<double> z;
  for (const double budget : budgets) z.push_back(std::pow(budget, -beta));
  return z;
}

// Spread between seeds at one budget, pooled over the budgets.
double PooledSigma(const std::map<double, std::vector<double>>& losses_by_budget) {
  double squares = 0, freedom = 0;
  for (const auto& [budget, losses] : losses_by_budget) {
    const double df = static_cast<double>(losses.size()) - 1;
    squares += df * Variance(losses);
    freedom += df;
  }
  return freedom > 0 ? std::sqrt(squares / freedom) : 0;
}

constexpr double kSameBudget = 1e-9;

}  // namespace

double ReferenceCurve::LossAt(double budget) const {
  return floor_nat + slope_nat / beta * std::pow(budget, -beta);
}

absl::StatusOr<ReferenceCurve> FitReference(std::span<const ReferenceRun> runs, double beta) {
  std::map<int64_t, Points> by_seed;
  for (const ReferenceRun& run : runs) {
    by_seed[run.seed].budgets.push_back(run.budget);
    by_seed[run.seed].losses.push_back(run.loss_nat);
  }
  ReferenceCurve curve{.beta = beta};
  std::vector<double> slopes, floors;
  std::map<double, std::vector<double>> by_budget;
  const auto mean_slope = [&](double at_beta) {
    std::vector<double> out;
    for (const auto& [seed, slope] : curve.slope_by_seed) {
      const Points& points = by_seed.at(seed);
      out.push_back(at_beta * FitLine(Powers(points.budgets, at_beta), points.losses).slope);
    }
    return Mean(out);
  };
  for (const auto& [seed, points] : by_seed) {
    const auto d0 = std::find_if(points.budgets.begin(), points.budgets.end(),
                                 [](double budget) { return std::abs(budget - 1) < kSameBudget; });
    if (d0 == points.budgets.end() || points.budgets.size() < 2) continue;
    const StraightLine line = FitLine(Powers(points.budgets, beta), points.losses);
    curve.slope_by_seed[seed] = beta * line.slope;
    curve.d0_loss_by_seed[seed] = points.losses[static_cast<size_t>(d0 - points.budgets.begin())];
    slopes.push_back(beta * line.slope);
    floors.push_back(line.intercept);
    for (size_t i = 0; i < points.budgets.size(); ++i) {
      by_budget[points.budgets[i]].push_back(points.losses[i]);
    }
  }
  if (slopes.empty()) {
    return absl::FailedPreconditionError(
        "reference curve: no seed has finished the D0 run and another budget");
  }
  for (const auto& [budget, losses] : by_budget) curve.budgets.push_back(budget);
  curve.smallest_budget = curve.budgets.front();
  curve.slope_nat = Mean(slopes);
  curve.slope_se_nat = std::sqrt(Variance(slopes) / static_cast<double>(slopes.size()));
  curve.floor_nat = Mean(floors);
  curve.sigma_nat = PooledSigma(by_budget);
  curve.slope_at_beta_low = mean_slope(kBetaLow);
  curve.slope_at_beta_high = mean_slope(kBetaHigh);
  if (!(curve.slope_nat > 0)) {
    return absl::FailedPreconditionError(
        fmt::format("reference curve: slope {:.4g} nat is not above 0: more tokens did not help; "
                    "the budgets are too small or the runs are too noisy",
                    curve.slope_nat));
  }
  return curve;
}

}  // namespace longhaul
