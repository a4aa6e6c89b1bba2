#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/estimates/efficiency.h"

namespace longhaul {

// Loss against the error that a codec makes: Delta = kappa_f eps_f + kappa_b eps_b, eps the NMSE of
// boundary tensors summed over the boundaries of an arm. Small independent noise costs in
// proportion; noise of known size (codecs "gauss-EPS") gives the scale to hold a codec against.

constexpr std::string_view kGaussianPrefix = "gauss";

struct DosePoint {
  std::string arm;
  double forward, backward;  // eps, summed over boundaries
  LossBySeed delta_by_seed;  // nat
  double total() const { return forward + backward; }
};

// nat per unit of summed NMSE, t over the seeds that have every arm.
struct DoseFit {
  std::vector<std::string> arms;
  int64_t seeds = 0;
  std::optional<Measured> kappa;              // directions together
  std::optional<Measured> forward, backward;  // where the arms tell them apart
  std::optional<Measured> exponent;           // of Delta = k eps^p; two doses or more
  double smallest = 0, largest = 0;           // eps: nothing is predicted outside
  std::string note = {};                      // why there is no fit, or no exponent
  std::vector<std::pair<int64_t, double>> kappa_by_seed = {};
};
DoseFit FitDose(std::span<const DosePoint> points, double level = 0.95);

// kappa of a codec over that of Gaussian noise, by seed: near 1 it acts as noise does, above there
// is bias or structure. nullopt: no seed in common, or the noise costs nothing that can be seen.
std::optional<Measured> KappaRatio(const DoseFit& codec, const DoseFit& noise, double level = 0.95);

}  // namespace longhaul
