#pragma once

#include <span>
#include <string>
#include <vector>

namespace longhaul {

// Holm's step-down over a family of tests: adjusted p values in the order given. Rejecting those at
// most 0.05 keeps the chance of any false rejection in the whole family at 5 %.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

// Two-sided p of a paired t test that the mean of x is 0. 1 for fewer than two values, and where
// all are 0; 0 where all are the same other number.
double PairedP(std::span<const double> x);

}  // namespace longhaul
