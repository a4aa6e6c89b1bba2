#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/estimates/depth_models.h"

namespace longhaul {

// How far a shape of the loss over depth is trusted beyond the depths that were measured: no one model
// is, so several stand together, each with a weight by how well it predicted depths that it had not seen.
struct DepthEnsemble {
  struct Member {
    DepthModel model;
    double weight;        // they sum to 1
    double held_out_rms;  // of predicted less measured -ln eta, over depths left out one at a time
  };
  struct Prediction {
    int64_t stages;
    double ln_eta;      // at most 0
    Interval interval;  // of a prediction; its upper end at most 0
  };
  std::vector<Member>
      members;          // of M1, M4 and M5 those that could be fitted and held against a depth
  int64_t deepest = 0;  // S, of the arms that were fitted
  std::vector<Prediction> at;
};

// Predicts ln eta at `stages`, each with `directions` crossings a boundary (1 or 2). Weights are as
// 1 over the mean square of the held-out errors. A prediction's variance is the members' weighted mean of
// (their distance from the mean)^2 + (standard error over seeds)^2 + (held-out rms g)^2, and the reference
// curve's own; g is 1 up to `deepest` and grows as (S - 1)/(deepest - 1) beyond; the interval has t(n - 1).
// Nothing: one seed, or no member was ever held against a depth.
std::optional<DepthEnsemble> PredictDepths(const DepthComparison& depths, int64_t directions,
                                           int64_t deepest, std::span<const int64_t> stages,
                                           double level = 0.95);

}  // namespace longhaul
