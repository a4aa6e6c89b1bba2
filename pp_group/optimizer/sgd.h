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

 private:
  double rate_ = 0;
};

// Moves by the gradient as it is, without momentum and unclipped: for algorithms that see to both.
//   theta = (1 - lr decay) theta - lr gradient
class PlainSgd : public InnerOptimizer {
 public:
  using InnerOptimizer::InnerOptimizer;

 protected:
  bool Clips(int64_t) const override { return false; }
  void BeginStep(int64_t, double rate) override { rate_ = rate; }
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;

 private:
  double rate_ = 0;
};

// Likewise by the gradient's sign alone.
class SignSgd : public InnerOptimizer {
 public:
  using InnerOptimizer::InnerOptimizer;

 protected:
  bool Clips(int64_t) const override { return false; }
  void BeginStep(int64_t, double rate) override { rate_ = rate; }
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;

 private:
  double rate_ = 0;
};

}  // namespace longhaul
