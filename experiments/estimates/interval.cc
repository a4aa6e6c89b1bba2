#include "experiments/estimates/interval.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

namespace longhaul {
namespace {

constexpr double kPower = 0.8;
constexpr double kUpperTail = 0.975;  // two-sided 5 %

double Power(int n, double noncentrality) {
  const double critical = TQuantile(kUpperTail, n - 1);
  const boost::math::non_central_t shifted(n - 1, noncentrality);
  return boost::math::cdf(boost::math::complement(shifted, critical)) +
         boost::math::cdf(shifted, -critical);
}

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

constexpr double kLevel = 0.95;
constexpr size_t kBlock = 10, kFewestForBlocks = 30;

// [x(k), x(n + 1 - k)] holds the median unless fewer than k values fall on one side of it: with
// probability 1 - 2 P(Binomial(n, 1/2) < k). The largest k with which that is still 95 %.
std::optional<Interval> OrderStatistics(std::vector<double> x) {
  const size_t n = x.size();
  constexpr size_t kMostExact = 1000;  // 2^-n is a number up to there
  if (n > kMostExact) {
    const auto k = static_cast<size_t>(0.5 * static_cast<double>(n) - 0.98 * std::sqrt(n));
    std::sort(x.begin(), x.end());
    return Interval{x[k - 1], x[n - k], kLevel, "order statistics"};
  }
  double weight = std::pow(0.5, static_cast<double>(n));  // P(Binomial = 0)
  double below = weight;
  size_t k = 0;
  while (2 * below <= 1 - kLevel) {
    ++k;
    weight *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    below += weight;
  }
  if (k == 0) return std::nullopt;
  std::sort(x.begin(), x.end());
  return Interval{x[k - 1], x[n - k], kLevel, "order statistics"};
}

Interval BlockBootstrap(std::span<const double> x) {
  constexpr int kDraws = 2000;
  std::mt19937_64 random(20260301);
  std::vector<double> medians;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> sample;
    while (sample.size() < x.size()) {
      const size_t start = random() % (x.size() - kBlock + 1);
      for (size_t i = 0; i < kBlock && sample.size() < x.size(); ++i) {
        sample.push_back(x[start + i]);
      }
    }
    medians.push_back(Median(std::move(sample)));
  }
  std::sort(medians.begin(), medians.end());
  return {medians[kDraws / 40], medians[kDraws - 1 - kDraws / 40], kLevel, "block bootstrap"};
}

}  // namespace

double TQuantile(double p, double df) {
  return boost::math::quantile(boost::math::students_t(df), p);
}

double TwoSidedP(double t, double df) {
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(df), std::abs(t)));
}

double FTail(double f, double df1, double df2) {
  return boost::math::cdf(boost::math::complement(boost::math::fisher_f(df1, df2), f));
}

double DetectableEffect(int n) {
  double low = 0, high = 64;  // power grows with the noncentrality
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (Power(n, middle) < kPower ? low : high) = middle;
  }
  return high / std::sqrt(static_cast<double>(n));
}

int PairsNeeded(double effect) {
  constexpr int kMost = 1000;
  int n = 2;
  while (n <= kMost && !(DetectableEffect(n) <= effect)) ++n;
  return n;
}

double NormalQuantile(double p) { return boost::math::quantile(boost::math::normal(), p); }

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

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double left = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, left * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

double PairedP(std::span<const double> x) {
  if (x.size() < 2) return 1;
  const double n = static_cast<double>(x.size());
  const double mean = Mean(x), se = std::sqrt(Variance(x) / n);
  if (se == 0) return mean == 0 ? 1 : 0;
  return TwoSidedP(mean / se, n - 1);
}

double Median(std::vector<double> x) {
  if (x.empty()) return 0;
  const size_t half = x.size() / 2;
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(half), x.end());
  if (x.size() % 2 == 1) return x[half];
  return 0.5 *
         (x[half] + *std::max_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(half)));
}

Measured MedianOfIndependent(std::vector<double> x) {
  Measured out{Median(x), std::nullopt};
  out.interval = OrderStatistics(std::move(x));
  return out;
}

Measured MedianOfSteps(std::span<const double> in_order) {
  std::vector<double> x(in_order.begin(), in_order.end());
  Measured out{Median(x), std::nullopt};
  if (x.size() >= kFewestForBlocks) {
    out.interval = BlockBootstrap(in_order);
  } else {
    out.interval = OrderStatistics(std::move(x));
  }
  return out;
}

}  // namespace longhaul
