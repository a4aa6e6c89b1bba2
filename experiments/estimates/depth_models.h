#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/efficiency.h"

namespace longhaul {

// How the loss of an arm grows with its depth. K = K_f + K_b crossings, x = -ln eta:
//   M1  x = a K                        the planner's; q = exp(-a)
//   M2  x = a_f K_f + a_b K_b          directions differ
//   M3  x = -ln(1 - b K)               additive in eta
//   M4  x = a K^gamma                  gamma < 1 saturates, > 1 compounds
//   M5  x = c (1 - exp(-r K/2)) / r    saturates: A = c/r, tau = 1/r boundaries
enum class DepthModel { kM1, kM2, kM3, kM4, kM5 };
std::string_view ToString(DepthModel model);  // "M1"

// Arms from here on are held out of every fit while there are shallower ones: they test it.
constexpr int64_t kHeldOutStages = 16;

struct DepthArm {
  int64_t stages;
  int64_t forward, backward;  // crossings
  LossBySeed loss_by_seed;
};

// An arm predicted by a fit without any arm of its depth.
struct HeldOut {
  int64_t stages, crossings;
  double predicted, measured;         // -ln eta
  double z;                           // (predicted - measured) / se; 0 / 0 is 0
  int64_t forward = 0, backward = 0;  // of the crossings
};

struct DepthParameter {
  std::string name;
  Measured value;
};

struct DepthFit {
  DepthModel model;
  std::string note = {};           // why it could not be fitted, or what became of it
  std::vector<double> theta = {};  // empty: not fitted
  std::vector<DepthParameter> parameters = {};
  std::vector<std::vector<double>> influence = {};  // [parameter][seed]
  std::optional<double> aicc = std::nullopt;        // seed effects counted
  std::vector<HeldOut> held_out = {};
  bool Misses() const;  // some |z| > 2
  double MinusLnEta(double forward, double backward) const;
};

struct DepthComparison {
  int64_t seeds = 0;
  std::vector<DepthFit> fits = {};  // M1 to M5
  // M1, unless another has an AICc lower by more than 4 and misses no held-out depth.
  DepthModel chosen = DepthModel::kM1;
  std::vector<DepthModel> alike = {};  // as good as the chosen one: within 4, and no |z| > 2
  const DepthFit& Fit(DepthModel model) const { return fits[static_cast<size_t>(model)]; }
  // M4 in the planner's own form, -ln eta = a (S-1)^gamma with K = directions (S-1).
  std::optional<Measured> gamma() const;
  std::optional<Measured> PerBoundary(int64_t directions, double level = 0.95) const;
  // Two-sided, of gamma = 1: does anything bend? nullopt: M4 could not be fitted, or one seed.
  std::optional<double> BendP() const;
  std::string Words() const;
};

// Joint regression -ln eta = u_seed + x(arm) of every model over the same arms and seeds, the
// reference at K = 0. FailedPrecondition: fewer than two depths, or no seed with every arm.
absl::StatusOr<DepthComparison> CompareDepths(const ReferenceCurve& curve,
                                              const LossBySeed& reference,
                                              std::span<const DepthArm> arms, double level = 0.95);

}  // namespace longhaul
