#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "pp_group/stage.h"

namespace longhaul {

struct AdamWSpec {
  double lr;  // peak; cosine to min_lr_fraction over the run's own length
  double min_lr_fraction = 0.1;
  int64_t warmup_steps = 0;  // linear
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;  // of matrices (embeddings and head included), not of vectors
  // Largest gradient norm of one clip group: the embeddings, each block, the final norm with the
  // head. Per block, not per model: no traffic between stages, and the same training for every S.
  // infinity: off.
  double clip_norm = 1.0;
};

// Rate of inner step `step` (0-based) of a run of `steps`: (step + 1) / warmup of the peak during
// warm-up, then half a cosine from the peak down to min_lr_fraction of it after the last step.
double LearningRate(const AdamWSpec& spec, int64_t step, int64_t steps);

// Squared gradient norms of each clip group of a stage: of what all ranks that run it hold alike,
// and of what is spread over them (stage_layout.h).
struct ClipSquares {
  std::vector<double> shared, spread;
};
ClipSquares ClipSquaresOf(const Stage& stage);

// AdamW over the flat buffers of one stage. Its moments stay across outer steps.
class AdamW {
 public:
  AdamW(const AdamWSpec& spec, const Stage& stage);

  // One update from stage->gradients(). `step` counts from 0 (bias correction and rate). `spread`:
  // of each clip group the squares that are spread, of all ranks together; empty: nothing is
  // spread. Returns how many clip groups had a larger norm than clip_norm.
  int Step(int64_t step, int64_t steps, Stage* stage, const std::vector<double>& spread = {});

  void ForgetMoments();  // as new

  // [flat_elements] f32 each, where the stage's parameters lie; for checkpoints.
  const at::Tensor& first_moment() const { return m_; }
  const at::Tensor& second_moment() const { return v_; }

 private:
  struct Rates;
  Rates RatesOf(int64_t step, int64_t steps) const;
  std::vector<float> ClipScales(const Stage& stage, const std::vector<double>& spread) const;

  AdamWSpec spec_;
  at::Tensor m_, v_;
};

// One parameter's update in ATen calls: what Step does where parameters are not on the CPU, apart
// for a test. [elements] f32 each.
struct AdamWStep;
void StepByAten(const AdamWStep& s, const at::Tensor& gradient, const at::Tensor& parameter,
                const at::Tensor& first, const at::Tensor& second);

// 64 bits over the float32 bits of `x` (contiguous), for "do these two runs hold the same
// parameters": not cryptographic. Equal on every host.
uint64_t HashOf(const at::Tensor& x);

}  // namespace longhaul
