#pragma once

namespace longhaul {

// Quantile of Student's t: P(T <= TQuantile(p, df)) = p. df >= 1.
double TQuantile(double p, double df);

// P(|T| >= |t|): of a two-sided t test. df >= 1.
double TwoSidedP(double t, double df);

// Smallest true mean difference, in units of the standard deviation of the paired differences, that
// a two-sided 5 % t test over n pairs finds with 80 % power: exact, by the noncentral t. n >= 2.
// The normal shortcut 2.8/sqrt(n) is half of it at n = 3.
double DetectableEffect(int n);

// Fewest pairs (>= 2, <= 1000) whose DetectableEffect is at most `effect`; 1001 if none is.
int PairsNeeded(double effect);

// Standard normal.
double NormalQuantile(double p);

}  // namespace longhaul
