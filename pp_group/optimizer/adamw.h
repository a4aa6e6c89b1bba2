#pragma once

#include "pp_group/optimizer/inner_optimizer.h"

namespace longhaul {

// AdamW over the flat buffers of one stage.
class AdamW : public InnerOptimizer {
 public:
  using InnerOptimizer::InnerOptimizer;

 protected:
  void BeginStep(int64_t step, double rate) override;
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;

  double step_size_ = 0, sqrt_correction2_ = 0, decay_ = 0;  // of the step
};

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

 private:
  bool settled_ = false;
};

// One parameter's update in ATen calls: what AdamW does where parameters are not on the CPU, apart
// for a test. [elements] f32 each.
struct AdamWStep;
void StepByAten(const AdamWStep& s, const at::Tensor& gradient, const at::Tensor& parameter,
                const at::Tensor& first, const at::Tensor& second);

// 64 bits over the float32 bits of `x` (contiguous), for "do these two runs hold the same
// parameters": not cryptographic. Equal on every host.
uint64_t HashOf(const at::Tensor& x);

}  // namespace longhaul
