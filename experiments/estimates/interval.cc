#include "experiments/estimates/interval.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/estimates/student_t.h"

namespace longhaul {
namespace {

constexpr double kFiellerBelow = 5;  // standard errors

struct RatioMoments {  // of the means
  double y, x, var_y, var_x, cov;
};

std::optional<Interval> Fieller(const RatioMoments& m, double t, double level) {
  // All r with (y - r x)^2 <= t^2 (var_y - 2 r cov + r^2 var_x).
  const double a = m.x * m.x - t * t * m.var_x;
  const double b = m.y * m.x - t * t * m.cov;
  const double c = m.y * m.y - t * t * m.var_y;
  const double root = b * b - a * c;
  if (a <= 0 || root < 0) return std::nullopt;  // unbounded: x is not told from 0
  return Interval{(b - std::sqrt(root)) / a, (b + std::sqrt(root)) / a, level, "fieller"};
}

Interval Delta(const RatioMoments& m, double t, double level) {
  const double r = m.y / m.x;
  const double variance = (m.var_y - 2 * r * m.cov + r * r * m.var_x) / (m.x * m.x);
  const double half = t * std::sqrt(std::max(0.0, variance));
  return {r - half, r + half, level, "t"};
}

}  // namespace

double Mean(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double Covariance(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 2) return 0;
  const double mean_x = Mean(x), mean_y = Mean(y);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - mean_x) * (y[i] - mean_y);
  return sum / static_cast<double>(x.size() - 1);
}

double Variance(std::span<const double> x) { return Covariance(x, x); }

Measured MeanWithInterval(std::span<const double> x, double level) {
  Measured out{.value = Mean(x), .interval = std::nullopt};
  if (x.size() < 2) return out;
  const double n = static_cast<double>(x.size());
  const double half = TQuantile(0.5 + level / 2, n - 1) * std::sqrt(Variance(x) / n);
  out.interval = Interval{out.value - half, out.value + half, level, "t"};
  return out;
}

Measured RatioOfMeans(std::span<const double> y, std::span<const double> x, double level) {
  Measured out{.value = Mean(y) / Mean(x), .interval = std::nullopt};
  if (x.size() < 2) return out;
  const double n = static_cast<double>(x.size());
  const RatioMoments m{Mean(y), Mean(x), Variance(y) / n, Variance(x) / n, Covariance(y, x) / n};
  const double t = TQuantile(0.5 + level / 2, n - 1);
  if (std::abs(m.x) < kFiellerBelow * std::sqrt(m.var_x)) {
    out.interval = Fieller(m, t, level);
  } else {
    out.interval = Delta(m, t, level);
  }
  return out;
}

}  // namespace longhaul
