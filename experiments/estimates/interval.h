#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

struct Interval {
  double low, high;
  double level;        // 0.95
  std::string method;  // "t", "fieller"
};

// What a number says about the quantity.
enum class Bound {
  kNone,    // its value
  kUpper,   // that it is at most `value`; an interval reaches from nowhere known up to there
  kLowEnd,  // its value; the quantity may lie below the interval's low end, nobody knows how far
};

// A number and, where the design gives one, its interval. One seed gives none.
struct Measured {
  double value = 0;
  std::optional<Interval> interval = std::nullopt;
  Bound bound = Bound::kNone;
};

double Mean(std::span<const double> x);
double Variance(std::span<const double> x);  // n - 1; 0 for n < 2
double Covariance(std::span<const double> x, std::span<const double> y);

// Mean of x over seeds with its t interval.
Measured MeanWithInterval(std::span<const double> x, double level);

// mean(y) / mean(x) over seeds, y and x of one seed being paired (and correlated). The interval:
// n = 1: none. Else the delta method with t(n - 1), their covariance included; Fieller where
// mean(x) is less than 5 standard errors from 0, none when that interval is unbounded.
Measured RatioOfMeans(std::span<const double> y, std::span<const double> x, double level);

}  // namespace longhaul
