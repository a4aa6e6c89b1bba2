#include "experiments/estimates/interval.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "experiments/estimates/student_t.h"

namespace longhaul {
namespace {

constexpr int kDraws = 10'000;
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

double MeanAt(std::span<const double> x, std::span<const size_t> at) {
  double sum = 0;
  for (const size_t i : at) sum += x[i];
  return sum / static_cast<double>(at.size());
}

double Percentile(const std::vector<double>& sorted, double p) {
  const double at = std::clamp(p, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Acceleration of BCa from the jackknife.
double Acceleration(size_t n, const std::function<double(std::span<const size_t>)>& statistic) {
  std::vector<double> left_out;
  for (size_t skip = 0; skip < n; ++skip) {
    std::vector<size_t> rest;
    for (size_t i = 0; i < n; ++i) {
      if (i != skip) rest.push_back(i);
    }
    left_out.push_back(statistic(rest));
  }
  const double mean = Mean(left_out);
  double cubes = 0, squares = 0;
  for (const double value : left_out) {
    cubes += std::pow(mean - value, 3);
    squares += std::pow(mean - value, 2);
  }
  return squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
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
  out.bootstrap = BcaInterval(
      x.size(), [&](std::span<const size_t> at) { return MeanAt(y, at) / MeanAt(x, at); }, level);
  return out;
}

std::optional<Interval> BcaInterval(size_t n,
                                    const std::function<double(std::span<const size_t>)>& statistic,
                                    double level) {
  if (n < kBootstrapSeeds) return std::nullopt;
  std::vector<size_t> at(n);
  std::iota(at.begin(), at.end(), size_t{0});
  const double value = statistic(at);
  std::mt19937_64 random(20260301);  // fixed: the same record gives the same interval
  std::vector<double> draws(kDraws);
  for (double& draw : draws) {
    for (size_t& i : at) i = random() % n;
    draw = statistic(at);
  }
  std::sort(draws.begin(), draws.end());
  const auto below = std::lower_bound(draws.begin(), draws.end(), value) - draws.begin();
  const double share =
      std::clamp(static_cast<double>(below) / kDraws, 1.0 / kDraws, 1 - 1.0 / kDraws);
  const double z0 = NormalQuantile(share);
  const double a = Acceleration(n, statistic);
  const auto adjusted = [&](double p) {
    const double z = z0 + NormalQuantile(p);
    return Percentile(draws, NormalCdf(z0 + z / (1 - a * z)));
  };
  const double tail = (1 - level) / 2;
  return Interval{adjusted(tail), adjusted(1 - tail), level, "bca"};
}

}  // namespace longhaul
