#pragma once

#include "pp_group/optimizer/inner_optimizer.h"

namespace longhaul {

// AdamW over the flat buffers of one stage.
class AdamW : public InnerOptimizer {
 public:
  using InnerOptimizer::InnerOptimizer;

 protected:
  void BeginStep(int64_t step, double rate) override;
  void UpdateAll(const std::vector<float>& scales, Stage* stage) override;
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
  // Whether Update is AdamW's for every slot in this step, so that one kernel may take them all.
  virtual bool AllAlike() const { return !spec().joint_stream_moments; }

  double step_size_ = 0, sqrt_correction2_ = 0, decay_ = 0;  // of the step

 private:
  int64_t steps_done_ = 0;  // with the step
  double rate_ = 0;
};

// One update by LibTorch's fused AdamW, of parameters that are on a device, apart for a test: a launch
// for those that decay and one for the others. Scales the gradients in place. `step` from 1. `without_copies`:
// all but StageLayout::IsCopy.
void StepFused(const AdamWSpec& spec, int64_t step, double rate, const std::vector<float>& scales,
               Stage* stage, const at::Tensor& first, const at::Tensor& second,
               bool without_copies = false);

// AdamW whose second moment, and with it the correction of its bias, stays after spec.settled steps.
// From then on what stands in the gradient's place is the first moment, unclipped: groups have agreed
// on it (1-bit Adam, Tang et al. 2021).
class OneBitAdam : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  bool Clips(int64_t step) const override { return step < spec().settled; }
  void BeginStep(int64_t step, double rate) override;
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
  bool AllAlike() const override { return AdamW::AllAlike() && !settled_; }

 private:
  bool settled_ = false;
};

// One parameter's update in ATen calls: what AdamW does of single parameters that are not on the CPU,
// apart for a test. [elements] f32 each.
struct AdamWStep;
void StepByAten(const AdamWStep& s, const at::Tensor& gradient, const at::Tensor& parameter,
                const at::Tensor& first, const at::Tensor& second);

}  // namespace longhaul
