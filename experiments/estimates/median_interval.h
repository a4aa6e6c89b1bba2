#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/estimates/interval.h"

namespace longhaul {

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
