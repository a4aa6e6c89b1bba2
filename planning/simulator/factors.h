#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace longhaul::simulator {

// Factors of one calibration at one point of their intervals, in place of the assumed ones.
// Everything empty leaves every formula as it is, bit for bit.
struct Factors {
  struct AtDepth {
    int64_t stages;
    double ln_eta;
  };
  // eta_act, at most 1: at a listed S as it stands, between two (and S = 1, which has 0) on a line of
  // ln eta over S, deeper than all q^(2(S-1)) or exp(-a (S-1)^gamma) with the a that gives q at S = 2.
  std::optional<double> q;
  std::optional<double> gamma;
  std::vector<AtDepth> by_stages;
  // What activations forward and their gradients backward shrink to; T_step uses them.
  std::optional<double> forward_ratio, backward_ratio;

  std::optional<double> alpha_scale;  // multiplies alpha(P)
  std::optional<double> eta_h;        // at the scenario's own P, M and H
  std::optional<double> eta_c;
  std::optional<double> eta_r;
  std::optional<double> replica_coefficient, replica_floor;  // of the linear forms of eta_r
  std::optional<double> straggler_coefficient;
  std::optional<double> step_time_ratio;  // multiplies T_step
};

}  // namespace longhaul::simulator
