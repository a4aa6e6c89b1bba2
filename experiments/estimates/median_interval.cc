#include "experiments/estimates/median_interval.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace longhaul {
namespace {

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
