#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

// Quantile of Student's t: P(T <= TQuantile(p, df)) = p. df >= 1.
double TQuantile(double p, double df);

// P(|T| >= |t|): of a two-sided t test. df >= 1.
double TwoSidedP(double t, double df);

// P(F >= f) of Fisher's F. f >= 0, both degrees >= 1.
double FTail(double f, double df1, double df2);

// Smallest true mean difference, in units of the standard deviation of the paired differences, that
// a two-sided 5 % t test over n pairs finds with 80 % power: exact, by the noncentral t. n >= 2.
// The normal shortcut 2.8/sqrt(n) is half of it at n = 3.
double DetectableEffect(int n);

// Fewest pairs (>= 2, <= 1000) whose DetectableEffect is at most `effect`; 1001 if none is.
int PairsNeeded(double effect);

// Standard normal.
double NormalQuantile(double p);

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

// Holm's step-down over a family of tests: adjusted p values in the order given. Rejecting those at
// most 0.05 keeps the chance of any false rejection in the whole family at 5 %.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

// Two-sided p of a paired t test that the mean of x is 0. 1 for fewer than two values, and where
// all are 0; 0 where all are the same other number.
double PairedP(std::span<const double> x);

// The middle value, the mean of the two middle ones of an even number; 0 for none.
double Median(std::vector<double> x);

// The median of what consecutive steps took, with its 95 % interval, without any assumption on the
// distribution. From 30 values on by block bootstrap (blocks of 10, because neighbouring steps are
// alike; deterministic); below that between two order statistics, which takes 6 values at least
// and takes them for independent; none below 6.
Measured MedianOfSteps(std::span<const double> in_order);

// The median of independent values with its 95 % interval between two order statistics, without any
// assumption on the distribution; none below 6 values.
Measured MedianOfIndependent(std::vector<double> x);

}  // namespace longhaul
