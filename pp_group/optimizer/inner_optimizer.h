#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "pp_group/optimizer/adamw_spec.h"
#include "pp_group/stage.h"

namespace longhaul {

// Rate of inner step `step` (0-based) of a run of `steps`: (step + 1) / warmup of the peak during
// warm-up, then half a cosine from the peak down to min_lr_fraction of it after the last step. Of
// "wsd": the peak, whatever `steps` is, and a line down to min_lr_fraction over the last DecaySteps.
double LearningRate(const AdamWSpec& spec, int64_t step, int64_t steps);

// Squared gradient norms of each clip group of a stage: of what all ranks that run it hold alike,
// and of what is spread over them (stage_layout.h).
struct ClipSquares {
  std::vector<double> shared, spread;
};
ClipSquares ClipSquaresOf(const Stage& stage);
// The same of several stages, in their order: of a device's the host waits once.
std::vector<ClipSquares> ClipSquaresOf(std::span<const Stage* const> stages);

// The gradient's norm of each clip group. `spread`: squares of what is spread, of all ranks together;
// empty: nothing is spread.
std::vector<double> GradientNorms(const ClipSquares& squares, const std::vector<double>& spread);
std::vector<double> GradientNorms(const Stage& stage, const std::vector<double>& spread = {});

// The factor of each clip group's gradient that makes it at most `clip_norm` long; 1: it is not
// clipped. `norms`: finite, of GradientNorms.
std::vector<float> ClipScales(double clip_norm, const std::vector<double>& norms);

// What moves the parameters of one stage after every inner step. Two moments in flat buffers, where
// the parameters lie, of which an optimizer uses what it needs: checkpoints, groups that join and
// poisoned groups need to know no more. They stay across outer steps.
class InnerOptimizer {
 public:
  InnerOptimizer(const AdamWSpec& spec, const Stage& stage);
  virtual ~InnerOptimizer() = default;

  // One update from stage->gradients(), whose norms are `norms`; the caller has found them finite.
  // `step` counts from 0. Returns the number of clip groups with a norm above clip_norm: their
  // gradients are scaled down to it.
  int Step(int64_t step, int64_t steps, Stage* stage, const std::vector<double>& norms);

  void ForgetMoments();  // as new

  // From now on the moments lie in these, [flat_elements] of zeros each, with another stage's, which
  // moves the parameters that both hold (StageLayout::IsCopy): this optimizer leaves them out.
  void LieIn(const at::Tensor& first, const at::Tensor& second);

  // [flat_elements] f32 each; for checkpoints.
  const at::Tensor& first_moment() const { return m_; }
  const at::Tensor& second_moment() const { return v_; }

 protected:
  // Whether gradients are clipped in this step.
  virtual bool Clips(int64_t) const { return true; }
  // Before the parameters of a step.
  virtual void BeginStep(int64_t step, double rate) = 0;
  // The parameters of all slots, whose gradients count as `scales` says by clip group. What scales
  // them in place is free to: nothing reads them after it.
  virtual void UpdateAll(const std::vector<float>& scales, Stage* stage);
  // The parameters of one slot, whose gradient counts `grad_scale` times.
  virtual void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) = 0;

  const AdamWSpec& spec() const { return spec_; }
  bool shared() const { return shared_; }  // LieIn has been called
  static at::Tensor PartOf(const at::Tensor& flat, const ParameterSlot& slot) {
    return flat.narrow(0, slot.offset, slot.elements());
  }

  at::Tensor m_, v_;

 private:
  AdamWSpec spec_;
  bool shared_ = false;
};

// NotFound, with the names that there are.
absl::StatusOr<std::unique_ptr<InnerOptimizer>> NewInnerOptimizer(const AdamWSpec& spec,
                                                                  const Stage& stage);

}  // namespace longhaul
