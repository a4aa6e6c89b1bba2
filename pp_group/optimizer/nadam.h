#pragma once

#include "pp_group/optimizer/adamw.h"

namespace longhaul {

// NAdam (Dozat 2016) with decoupled decay, as torch.optim.NAdam has it with its own momentum_decay:
//   mu_t  = beta1 (1 - 0.5 * 0.96^(0.004 t))
//   m, v  = AdamW's
//   theta = (1 - lr decay) theta - lr (1 - mu_t) / (1 - mu_1 .. mu_t) gradient / d
//                                - lr mu_t+1 / (1 - mu_1 .. mu_t+1) m / d,  d = AdamW's
// What 2505.01099 takes, with beta1 = 0.99, for gradients of older weights: momentum looks ahead of them.
class NAdam : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  void BeginStep(int64_t step, double rate) override;
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
  bool AllAlike() const override { return false; }

 private:
  double Momentum(int64_t t) const;

  int64_t multiplied_ = 0;                  // the last t in product_
  double product_ = 1;                      // mu_1 .. mu_t
  double of_gradient_ = 0, of_moment_ = 0;  // of the step
};

}  // namespace longhaul
