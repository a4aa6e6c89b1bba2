#include "planning/simulator/chinchilla.h"

#include <algorithm>
#include <cmath>

namespace longhaul::simulator {
namespace {

constexpr double kIrreducible = 1.8172;
constexpr double kModel = 482.01;
constexpr double kModelPower = 0.3478;
constexpr double kData = 2085.43;
constexpr double kDataPower = 0.3658;

}  // namespace

double Loss(double parameters, double tokens) {
  return kIrreducible + kModel * std::pow(parameters, -kModelPower) +
         kData * std::pow(tokens, -kDataPower);
}

double LossSlope(double, double tokens) {
  return -kDataPower * kData * std::pow(tokens, -kDataPower);
}

double LossOfCompute(double compute, double tokens_per_parameter) {
  const double parameters = std::sqrt(compute / (6 * tokens_per_parameter));
  return Loss(parameters, tokens_per_parameter * parameters);
}

// Newton on ln(L - 1.8172) over ln C: a sum of two falling exponentials of nearly one power is
// nearly a line there, so a few rounds reach the last bits.
double ComputeOfLoss(double loss, double tokens_per_parameter, double least, double most) {
  if (loss <= kIrreducible) return most;
  const double want = std::log(loss - kIrreducible);
  const double low = std::log(least), high = std::log(most);
  // Both terms as k exp(-p x/2) over x = ln C.
  const double model = kModel * std::pow(6 * tokens_per_parameter, kModelPower / 2);
  const double data = kData * std::pow(tokens_per_parameter / 6, -kDataPower / 2);
  double x = 0.5 * (low + high);
  for (int round = 0; round < 50; ++round) {
    const double of_model = model * std::exp(-0.5 * kModelPower * x);
    const double of_data = data * std::exp(-0.5 * kDataPower * x);
    const double sum = of_model + of_data;
    const double slope = -0.5 * (kModelPower * of_model + kDataPower * of_data) / sum;
    const double step = (want - std::log(sum)) / slope;
    x += step;
    if (std::abs(step) < 1e-13 * std::abs(x)) break;
  }
  return std::exp(std::clamp(x, low, high));
}

double Chi(double m, double parameters, double tokens, double raw, double tokens_per_parameter) {
  if (!(raw > 0) || !(tokens > 0)) return 1;
  const double reached =
      ComputeOfLoss(m * Loss(parameters, tokens), tokens_per_parameter, 1e10, 10 * raw);
  return std::min(1.0, reached / raw);
}

}  // namespace longhaul::simulator
