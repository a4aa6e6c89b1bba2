#include "experiments/estimates/holm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/estimates/interval.h"
#include "experiments/estimates/student_t.h"

namespace longhaul {

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

}  // namespace longhaul
