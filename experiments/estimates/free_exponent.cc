// The reference curve with an exponent of its own, where the budgets can tell one.
#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/seed_regression.h"

namespace longhaul {
namespace {

constexpr double kSmallestBeta = 0.05, kLargestBeta = 3;
constexpr double kGolden = 0.6180339887498949;

// Losses of every seed at the same budgets.
struct Balanced {
  std::vector<double> budgets;
  std::vector<int64_t> seeds;
  std::vector<std::vector<double>> losses;  // [seed][budget]
};

// Only what a curve counts, and only where every seed has every budget once.
std::optional<Balanced> Balance(std::span<const ReferenceRun> runs, const ReferenceCurve& curve) {
  std::map<int64_t, std::map<double, double>> by_seed;
  for (const ReferenceRun& run : runs) {
    if (curve.slope_by_seed.contains(run.seed)) by_seed[run.seed][run.budget] = run.loss_nat;
  }
  Balanced out{.budgets = curve.budgets, .seeds = {}, .losses = {}};
  for (const auto& [seed, losses] : by_seed) {
    if (losses.size() != out.budgets.size()) return std::nullopt;
    out.seeds.push_back(seed);
    out.losses.emplace_back();
    for (const auto& [budget, loss] : losses) out.losses.back().push_back(loss);
  }
  return out;
}

// Slope at D0 and what the line in (D/D0)^-beta leaves.
struct LineAt {
  double slope_nat, residual_squares;
};
LineAt FitAt(const std::vector<double>& budgets, const std::vector<double>& losses, double beta) {
  std::vector<double> z;
  for (const double budget : budgets) z.push_back(std::pow(budget, -beta));
  const double b = Covariance(z, losses) / Variance(z);
  const double freedom = static_cast<double>(z.size()) - 1;
  return {beta * b, freedom * (Variance(losses) - b * Covariance(z, losses))};
}

// Golden section: the residual has one minimum in beta for losses that fall and flatten.
double BestBeta(const std::vector<double>& budgets, const std::vector<double>& losses) {
  double low = kSmallestBeta, high = kLargestBeta;
  const auto cost = [&](double beta) { return FitAt(budgets, losses, beta).residual_squares; };
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = cost(left), at_right = cost(right);
  while (high - low > 1e-7) {
    if (at_left < at_right) {
      high = right;
      right = std::exchange(left, right - kGolden * (right - low));
      at_right = std::exchange(at_left, cost(left));
    } else {
      low = left;
      left = std::exchange(right, left + kGolden * (high - left));
      at_left = std::exchange(at_right, cost(right));
    }
  }
  return (low + high) / 2;
}

bool AtAnEdge(double beta) { return beta < 1.1 * kSmallestBeta || beta > 0.97 * kLargestBeta; }

std::vector<double> MeanLosses(const Balanced& x) {
  std::vector<double> mean(x.budgets.size(), 0.0);
  for (const std::vector<double>& losses : x.losses) {
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] += losses[i] / static_cast<double>(x.seeds.size());
    }
  }
  return mean;
}

// mean + share (losses - mean)
std::vector<double> Towards(const std::vector<double>& mean, const std::vector<double>& losses,
                            double share) {
  std::vector<double> out = mean;
  for (size_t i = 0; i < out.size(); ++i) out[i] += share * (losses[i] - mean[i]);
  return out;
}

}  // namespace

absl::StatusOr<ReferenceCurve> FitReferenceFreely(std::span<const ReferenceRun> runs) {
  absl::StatusOr<ReferenceCurve> fixed = FitReference(runs);
  if (!fixed.ok()) return fixed;
  const std::vector<double>& budgets = fixed->budgets;
  if (budgets.size() < kFreeBetaBudgets || budgets.back() < kFreeBetaSpan * budgets.front()) {
    return fixed;
  }
  const std::optional<Balanced> x = Balance(runs, *fixed);
  if (!x || x->seeds.size() < kFreeBetaSeeds) return fixed;
  const std::vector<double> mean = MeanLosses(*x);
  const double beta = BestBeta(budgets, mean);
  if (AtAnEdge(beta)) return fixed;
  absl::StatusOr<ReferenceCurve> curve = FitReference(runs, beta);
  if (!curve.ok()) return fixed;
  // What each seed moves the fit by, exponent and all: the slopes that intervals are made of.
  constexpr double kShare = 0.05;
  std::vector<double> slopes, moves;
  for (size_t j = 0; j < x->seeds.size(); ++j) {
    const std::vector<double> up = Towards(mean, x->losses[j], kShare);
    const std::vector<double> down = Towards(mean, x->losses[j], -kShare);
    const double beta_up = BestBeta(budgets, up), beta_down = BestBeta(budgets, down);
    slopes.push_back(FitAt(budgets, up, beta_up).slope_nat -
                     FitAt(budgets, down, beta_down).slope_nat);
    slopes.back() = curve->slope_nat + slopes.back() / (2 * kShare);
    moves.push_back((beta_up - beta_down) / (2 * kShare));
  }
  const double shift = curve->slope_nat - Mean(slopes);  // of second order
  for (size_t j = 0; j < x->seeds.size(); ++j) {
    slopes[j] += shift;
    curve->slope_by_seed[x->seeds[j]] = slopes[j];
  }
  curve->slope_se_nat = std::sqrt(Variance(slopes) / static_cast<double>(slopes.size()));
  curve->fitted_beta = FromInfluence(beta, moves, 0.95);
  return curve;
}

}  // namespace longhaul
