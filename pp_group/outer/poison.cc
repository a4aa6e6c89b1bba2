#include "pp_group/outer/poison.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

// Of at least one value; of an even number the mean of the two in the middle.
double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const size_t middle = x.size() / 2;
  return x.size() % 2 == 1 ? x[middle] : (x[middle - 1] + x[middle]) / 2;
}

// Where a norm is beyond the spread of all: exp(median + kMads x 1.4826 MAD) of the logarithms.
double SpreadLimit(const std::vector<double>& finite) {
  constexpr double kMadToSigma = 1.4826;
  std::vector<double> logs;
  for (const double norm : finite) logs.push_back(std::log(std::max(norm, 1e-300)));
  const double median = Median(logs);
  for (double& x : logs) x = std::abs(x - median);
  return std::exp(median + kMads * kMadToSigma * Median(logs));
}

}  // namespace

std::vector<bool> PoisonedMembers(std::span<const double> norms) {
  constexpr size_t kSpreadNeeds = 5;
  std::vector<double> finite;
  for (const double norm : norms) {
    if (std::isfinite(norm)) finite.push_back(norm);
  }
  const double limit = finite.size() >= kSpreadNeeds ? SpreadLimit(finite) : 0;
  std::vector<bool> poisoned;
  for (const double norm : norms) {
    if (!std::isfinite(norm)) {
      poisoned.push_back(true);
      continue;
    }
    std::vector<double> others = finite;
    others.erase(std::find(others.begin(), others.end(), norm));
    const double median = others.empty() ? 0 : Median(others);
    poisoned.push_back(median > 0 && norm > kAbsurdRatio * median && norm > limit);
  }
  return poisoned;
}

std::vector<double> NormsOverStages(std::span<const std::vector<double>> squared) {
  std::vector<double> norms(squared.front().size(), 0);
  for (const std::vector<double>& stage : squared) {
    for (size_t m = 0; m < norms.size(); ++m) norms[m] += stage[m];
  }
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

}  // namespace longhaul
