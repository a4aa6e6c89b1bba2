#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace longhaul {

// The inner optimizer, as a table [train] gives it.
struct AdamWSpec {
  double lr;  // peak
  double min_lr_fraction = 0.1;
  std::optional<int64_t> warmup_steps = {};  // linear; 0
  // From the peak: "cosine" (or empty) over the rest of the run, half a cosine, or "wsd": constant,
  // then a line in the last decay_share of the steps, so that runs of other lengths are the same run
  // until the shorter one decays.
  std::string schedule = {};
  std::optional<double> decay_share = {};  // of "wsd": kDecayShare
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // of matrices (embeddings and head included), not of vectors
  // Largest gradient norm of one clip group: the embeddings, each block, the final norm with the
  // head. Per block, not per model: no traffic between stages, and the same training for every S.
  // infinity: off.
  double clip_norm = 1.0;
  std::string optimizer = {};  // a name of InnerOptimizerNames(); empty: InnerOptimizerOf
  // These are the trainer's to set. Of AdamW: the elements of a vector that is a summand of the
  // residual stream (StreamVectors) have one second moment, of their mean square, so that a step
  // leaves no subspace that its gradients lie in.
  bool joint_stream_moments = false;
  int64_t settled = 0;  // of "onebit-adam": after so many steps the second moment stays
};

constexpr double kDecayShare = 0.2;
// The last of `steps`, in which the rate of "wsd" falls: its share of all, rounded up; else 0.
inline int64_t DecaySteps(const AdamWSpec& spec, int64_t steps) {
  if (spec.schedule != "wsd") return 0;
  const double share = spec.decay_share.value_or(kDecayShare);
  return static_cast<int64_t>(std::ceil(share * static_cast<double>(steps)));
}

}  // namespace longhaul
