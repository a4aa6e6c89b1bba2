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

// Moves by the gradient's sign alone, and without momentum: for algorithms that keep it themselves.
class SignSgd : public InnerOptimizer {
 public:
  using InnerOptimizer::InnerOptimizer;

 protected:
  void BeginStep(int64_t, double rate) override { rate_ = rate; }
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;

 private:
  double rate_ = 0;
};

}  // namespace longhaul
