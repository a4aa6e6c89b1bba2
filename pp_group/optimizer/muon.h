#pragma once

#include "pp_group/optimizer/adamw.h"

namespace longhaul {

// Muon (Jordan et al. 2024) for the matrices of blocks, AdamW for vectors, embeddings and the head:
//   m     = beta1 m + gradient                       [rows, cols], no Nesterov
//   o     = Orthogonalized(m)
//   theta = (1 - lr decay) theta - 0.2 sqrt(max(rows, cols)) lr o
// with that scale a matrix moves as far as AdamW would move it, so that both take one rate
// (2502.16982). AdamW's moments lie where Muon's momentum does, of other parameters.
class Muon : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  void BeginStep(int64_t step, double rate) override;
  void Update(const ParameterSlot& slot, float grad_scale, Stage* stage) override;
  bool AllAlike() const override { return false; }

 private:
  double rate_ = 0;
};

// x [rows, cols] with its singular values near 1: divided by its Frobenius norm, then five steps of
// Newton and Schulz, x <- a x + b (x x') x + c (x x')^2 x, each with its own a, b, c (2505.16932); of
// a tall x its transpose. Zero stays zero.
at::Tensor Orthogonalized(const at::Tensor& x);

}  // namespace longhaul
