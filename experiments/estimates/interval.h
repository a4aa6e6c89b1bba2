#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

struct Interval {
  double low, high;
  double level;        // 0.95
  std::string method;  // "t", "fieller", "bca"
};

// A number and, where the design gives one, its interval. One seed gives none.
struct Measured {
  double value = 0;
  std::optional<Interval> interval = std::nullopt;
};

double Mean(std::span<const double> x);
double Variance(std::span<const double> x);  // n - 1; 0 for n < 2
double Covariance(std::span<const double> x, std::span<const double> y);

// Mean of x over seeds with its t interval.
Measured MeanWithInterval(std::span<const double> x, double level);

// mean(y) / mean(x) over seeds, y and x of one seed being paired (and correlated). The interval:
// n = 1: none. n <= 7: delta method with t(n - 1); Fieller where mean(x) is less than 5 standard
// errors from 0, none when that interval is unbounded. n >= 8: BCa bootstrap over seeds.
Measured RatioOfMeans(std::span<const double> y, std::span<const double> x, double level);

// BCa bootstrap of `statistic`, which takes indices of seeds in 0..n-1. Deterministic. Refused
// (nullopt) below 8 seeds, where there are too few distinct resamples.
std::optional<Interval> BcaInterval(size_t n,
                                    const std::function<double(std::span<const size_t>)>& statistic,
                                    double level);

}  // namespace longhaul
