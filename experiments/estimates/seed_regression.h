#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/interval.h"

namespace longhaul {

// Least squares of a model with a few parameters over points that every seed has, and what
// each seed moves the parameters by: the spread of that over seeds gives the t intervals.
//   y[j][i] = u_j + m_i(theta) + noise       of seed j at point i
struct SeedRows {
  std::vector<std::vector<double>> y;
  bool seed_effects = true;  // u_j, else 0
};

// m at every point.
using PointModel = std::function<std::vector<double>(std::span<const double> theta)>;

struct SeedRegression {
  std::vector<double> theta;
  std::vector<std::vector<double>> influence;  // [parameter][seed]; each sums to 0
  std::vector<std::vector<double>> by_point;   // [parameter][point]: d theta / d y, of all seeds
  double residual_squares = 0;                 // all seeds and points
  // Of parameter p, t over seeds.
  Measured Parameter(size_t p, double level) const;
};

// Levenberg-Marquardt from `start`. FailedPrecondition: the points do not determine every
// parameter, or it does not converge.
absl::StatusOr<SeedRegression> FitOverSeeds(const SeedRows& rows, const PointModel& model,
                                            std::vector<double> start);

// `value` with t(n - 1) times the standard error of the mean of what the seeds move it by. No
// interval for one seed.
Measured FromInfluence(double value, std::span<const double> influence, double level);

}  // namespace longhaul
