#pragma once

#include "pp_group/optimizer/inner_optimizer.h"

namespace longhaul {

// Stochastic gradient descent with momentum, as torch.optim.SGD has it, and decoupled decay:
//   m     = beta1 m + gradient
//   theta = (1 - lr decay) theta - lr m
class Sgd : public InnerOptimizer {
 public:
  using InnerOptimizer::InnerOptimizer;

 protected:
  void BeginStep(int64_t, double rate) override { rate_ = rate; }
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
  // theta = (1 - lr decay) theta - lr direction
  void Move(const ParameterSlot& slot, const at::Tensor& direction, Stage* stage) const;

 private:
  double rate_ = 0;
};

// By the gradient as it is, without momentum and unclipped: for algorithms that see to both.
class PlainSgd : public Sgd {
 public:
  using Sgd::Sgd;

 protected:
  bool Clips(int64_t) const override { return false; }
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
};

// Likewise by the gradient's sign alone.
class SignSgd : public PlainSgd {
 public:
  using PlainSgd::PlainSgd;

 protected:
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
};

}  // namespace longhaul
