#include "experiments/estimates/seed_regression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

constexpr int kIterations = 400;
constexpr double kStep = 1e-6;           // of a central difference, relative
constexpr double kSingular = 1e-9;       // of a determinant against its diagonal
constexpr double kSmallestStep = 1e-13;  // relative
constexpr double kRounded = 1e-8;        // of a step, relative
constexpr double kGain = 1e-14;          // of the squares, relative

using Columns = std::vector<std::vector<double>>;  // [parameter][point]

void Centre(std::vector<double>& x) {
  const double mean = Mean(x);
  for (double& value : x) value -= mean;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The same for any number of columns, by Cholesky: each pivot is what its column has beside those
// before it.
std::vector<double> SolveMany(const Columns& z, const std::vector<double>& right, double damping) {
  const size_t n = z.size();
  Columns l(n, std::vector<double>(n, 0.0));
  std::vector<double> x = right;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double rest = Dot(z[i], z[j]) * (i == j ? 1 + damping : 1);
      const double whole = rest;
      for (size_t k = 0; k < j; ++k) rest -= l[i][k] * l[j][k];
      if (i != j) {
        l[i][j] = rest / l[j][j];
        continue;
      }
      if (!(rest > kSingular * whole) || !std::isfinite(rest)) return {};
      l[i][i] = std::sqrt(rest);
    }
    for (size_t k = 0; k < i; ++k) x[i] -= l[i][k] * x[k];
    x[i] /= l[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) x[i] -= l[k][i] * x[k];
    x[i] /= l[i][i];
  }
  return x;
}

// Solves (Z'Z + damping diag(Z'Z)) x = right. Empty: singular.
std::vector<double> Solve(const Columns& z, const std::vector<double>& right, double damping) {
  const double a = Dot(z[0], z[0]) * (1 + damping);
  if (!(a > 0) || !std::isfinite(a)) return {};
  if (z.size() == 1) return {right[0] / a};
  if (z.size() > 2) return SolveMany(z, right, damping);
  const double b = Dot(z[0], z[1]), c = Dot(z[1], z[1]) * (1 + damping);
  const double determinant = a * c - b * b;
  if (!(determinant > kSingular * a * c) || !std::isfinite(determinant)) return {};
  return {(c * right[0] - b * right[1]) / determinant, (a * right[1] - b * right[0]) / determinant};
}

struct Problem {
  const SeedRows& rows;
  const PointModel& model;
  std::vector<double> mean;  // of y over seeds, by point

  void Prepare(std::vector<double>& x) const {
    if (rows.seed_effects) Centre(x);
  }
  std::vector<double> Residuals(const std::vector<double>& y,
                                const std::vector<double>& theta) const {
    std::vector<double> r = model(theta);
    for (size_t i = 0; i < r.size(); ++i) r[i] = y[i] - r[i];
    Prepare(r);
    return r;
  }
  Columns Gradient(const std::vector<double>& theta) const {
    Columns z;
    for (size_t p = 0; p < theta.size(); ++p) {
      const double h = kStep * std::max(std::abs(theta[p]), 1e-3);
      std::vector<double> up = theta, down = theta;
      up[p] += h;
      down[p] -= h;
      std::vector<double> column = model(up);
      const std::vector<double> other = model(down);
      for (size_t i = 0; i < column.size(); ++i) column[i] = (column[i] - other[i]) / (2 * h);
      Prepare(column);
      z.push_back(std::move(column));
    }
    return z;
  }
};

std::vector<double> Project(const Columns& z, const std::vector<double>& r) {
  std::vector<double> out;
  for (const std::vector<double>& column : z) out.push_back(Dot(column, r));
  return out;
}

absl::Status NotDetermined() {
  return absl::FailedPreconditionError("the arms do not determine its parameters");
}

// One damped step at a time: kept where it lowers the squares.
absl::Status Descend(const Problem& problem, std::vector<double>& theta) {
  std::vector<double> r = problem.Residuals(problem.mean, theta);
  double squares = Dot(r, r), damping = 0;
  for (int i = 0; i < kIterations; ++i) {
    const Columns z = problem.Gradient(theta);
    const std::vector<double> step = Solve(z, Project(z, r), damping);
    if (step.empty()) return NotDetermined();
    std::vector<double> next = theta;
    double size = 0;
    for (size_t p = 0; p < next.size(); ++p) {
      next[p] += step[p];
      size = std::max(size, std::abs(next[p] - theta[p]) / std::max(std::abs(theta[p]), 1e-3));
    }
    std::vector<double> there = problem.Residuals(problem.mean, next);
    const double lower = Dot(there, there);
    // Steps this small that gain nothing are rounding, back and forth.
    const bool done = size < kSmallestStep || (size < kRounded && lower >= squares * (1 - kGain));
    if (std::isfinite(lower) && lower <= squares) {
      theta = std::move(next);
      r = std::move(there);
      squares = lower;
      damping /= 10;
      if (done) return absl::OkStatus();
    } else if (size < kRounded) {
      return absl::OkStatus();  // as low as numbers get
    } else {
      damping = std::max(10 * damping, 1e-4);
    }
  }
  return absl::FailedPreconditionError("its fit does not converge");
}

}  // namespace

Measured FromInfluence(double value, std::span<const double> influence, double level) {
  Measured out{.value = value};
  if (influence.size() < 2) return out;
  const double n = static_cast<double>(influence.size());
  const double half = TQuantile(0.5 + level / 2, n - 1) * std::sqrt(Variance(influence) / n);
  out.interval = Interval{value - half, value + half, level, "t"};
  return out;
}

Measured SeedRegression::Parameter(size_t p, double level) const {
  return FromInfluence(theta[p], influence[p], level);
}

absl::StatusOr<SeedRegression> FitOverSeeds(const SeedRows& rows, const PointModel& model,
                                            std::vector<double> start) {
  if (rows.y.empty()) return absl::FailedPreconditionError("no seed has every arm");
  Problem problem{rows, model, std::vector<double>(rows.y.front().size())};
  for (const std::vector<double>& row : rows.y) {
    for (size_t i = 0; i < row.size(); ++i) {
      problem.mean[i] += row[i] / static_cast<double>(rows.y.size());
    }
  }
  SeedRegression fit;
  fit.theta = std::move(start);
  if (absl::Status s = Descend(problem, fit.theta); !s.ok()) return s;
  const Columns z = problem.Gradient(fit.theta);
  fit.influence.resize(fit.theta.size());
  fit.by_point.resize(fit.theta.size());
  for (size_t i = 0; i < problem.mean.size(); ++i) {
    std::vector<double> one(problem.mean.size(), 0.0);
    one[i] = 1;
    problem.Prepare(one);
    const std::vector<double> by = Solve(z, Project(z, one), 0);
    for (size_t p = 0; p < by.size(); ++p) fit.by_point[p].push_back(by[p]);
  }
  for (size_t j = 0; j < rows.y.size(); ++j) {
    std::vector<double> moved = rows.y[j];
    for (size_t i = 0; i < moved.size(); ++i) moved[i] -= problem.mean[i];
    problem.Prepare(moved);
    const std::vector<double> by = Solve(z, Project(z, moved), 0);
    if (by.empty()) return NotDetermined();
    for (size_t p = 0; p < by.size(); ++p) fit.influence[p].push_back(by[p]);
    const std::vector<double> r = problem.Residuals(rows.y[j], fit.theta);
    fit.residual_squares += Dot(r, r);
  }
  return fit;
}

}  // namespace longhaul
