#pragma once

// Private to pp_group's LibTorch engine: what models are written in. Tensors are on the stage's
// device and of its compute dtype (f32 or bf16); n token rows of a micro-batch.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace longhaul {

// dW += dy^T x, put off until BackwardWeight.
struct WeightGradient {
  at::Tensor gradient;  // [out, in] f32, a view of the stage's flat gradient
  at::Tensor dy, x;     // [n, out], [n, in]
};
void AddWeightGradient(const WeightGradient& work);

// One parameter of a stage.
struct AtenParameter {
  // Of a matrix [rows, cols], of the compute dtype; of a vector [cols], f32, a leaf of autograd
  // whose gradient is `gradient`.
  at::Tensor value;
  at::Tensor gradient;  // the same shape, f32: a view of the flat gradient
  // Where Linear leaves the gradients of weights; null while they are added at once. Of the stage.
  std::vector<WeightGradient>** later;

  // Rows begin .. begin + count - 1 of a matrix, as a parameter.
  AtenParameter Rows(int64_t begin, int64_t count) const;
};

// x [n, in], w [out, in] -> x w^T [n, out].
at::Tensor Linear(const at::Tensor& x, const AtenParameter& w);

// x [n, heads d], rows of T tokens -> [rows, heads, T, d].
at::Tensor SplitHeads(const at::Tensor& x, int64_t context, int64_t heads);
// q [rows, heads, T, d], k and v [rows, kv_heads, T, d] -> causal attention [n, heads d].
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

// x [B, h, T, d] turned by position (rotary embedding, halves as in Llama of transformers); `cos`
// and `sin` [T, d].
struct RotaryTable {
  at::Tensor cos, sin;
};
RotaryTable NewRotaryTable(int64_t context, int64_t head_width, double theta,
                           const at::TensorOptions& options);
at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table);

// x [n, D] / rms(x) * weight [D]; (x - mean) / sigma * weight + bias.
at::Tensor RmsNorm(const at::Tensor& x, const AtenParameter& weight);
at::Tensor LayerNorm(const at::Tensor& x, const AtenParameter& weight, const AtenParameter& bias);
inline constexpr double kNormEps = 1e-5;

// y, and in the backward pass `weight` as the gradient of the scalar `loss` beside it: a loss that
// reaches the parameters without being part of the reported one.
at::Tensor WithLoss(const at::Tensor& y, const at::Tensor& loss, double weight);

// Autograd on for a scope, also below a guard that took it off the dispatcher.
class AutogradScope {
 public:
  explicit AutogradScope(bool records);
  ~AutogradScope();
  AutogradScope(const AutogradScope&) = delete;
  AutogradScope& operator=(const AutogradScope&) = delete;

 private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

// Runs the graph behind `y` with dy as its gradient; of `x`, a leaf, returns the gradient.
at::Tensor BackwardThrough(const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x);

}  // namespace longhaul
