// The only unit that includes Boost.Math: its headers are slow to compile.
#include "experiments/estimates/student_t.h"

#include <cmath>

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

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

}  // namespace

double TQuantile(double p, double df) {
  return boost::math::quantile(boost::math::students_t(df), p);
}

double TwoSidedP(double t, double df) {
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(df), std::abs(t)));
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

}  // namespace longhaul
