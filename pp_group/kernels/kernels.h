#pragma once

#include <cstddef>
#include <cstdint>

namespace longhaul {

// What a GPT stage computes between its matrix products, on raw float32 memory. Letters: n token
// rows, D width, T context, V vocab. Pure functions of their arguments; nothing allocates. Every
// sum has one fixed order, so equal inputs give equal bits for one instruction set.

struct AttentionShape {
  size_t rows;     // sequences of T tokens
  size_t context;  // T
  size_t heads;
  size_t head_width;  // D / heads
  // Floats of scratch that attention (or its backward) needs.
  size_t scratch_elements() const;
};

// One fused AdamW update of a range (decoupled weight decay, Loshchilov & Hutter 2019), in the
// order of torch.optim.AdamW:
//   theta -= lr wd theta; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   theta -= step_size m / (sqrt(v) / sqrt_correction2 + eps)
// with g = grad * grad_scale, step_size = lr / (1 - b1^t), sqrt_correction2 = sqrt(1 - b2^t).
struct AdamWStep {
  float grad_scale, beta1, beta2, eps, step_size, sqrt_correction2, decay;  // decay = lr * wd
};

struct Kernels {
  const char* name;  // "avx2", "plain"

  // y = (x - mean) * rstd * weight + bias per row; x, y: [n, D]; mean, rstd: [n]. eps 1e-5.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, size_t n, size_t width,
                     float* y, float* mean, float* rstd);
  // dx = skip + gradient through the norm; weight and bias gradients are added to. dx may be dy or
  // skip. `partial`: 2 D floats of scratch.
  void (*layer_norm_backward)(const float* dy, const float* x, const float* weight,
                              const float* mean, const float* rstd, const float* skip, size_t n,
                              size_t width, float* dx, float* dweight, float* dbias,
                              float* partial);
  // h = gelu(u) = u / (1 + exp(-2 sqrt(2/pi) (u + 0.044715 u^3))); u becomes gelu'(u).
  void (*gelu)(float* u, size_t count, float* h);
  void (*multiply)(const float* x, size_t count, float* y);  // y *= x
  // qkv: [rows * T, 3 D] with q, k, v side by side, heads within each; out: [rows * T, D];
  // log_sum: [rows, heads, T], logarithm of the softmax denominators, kept for the backward.
  void (*attention)(const AttentionShape& shape, const float* qkv, float* out, float* log_sum,
                    float* scratch);
  void (*attention_backward)(const AttentionShape& shape, const float* qkv, const float* out,
                             const float* log_sum, const float* dout, float* dqkv, float* scratch);
  // logits: [n, V] becomes its gradient: (softmax - onehot) * grad_scale. loss: [n], nat.
  void (*cross_entropy)(float* logits, const int64_t* targets, size_t n, size_t vocab,
                        float grad_scale, double* loss);
  double (*sum_of_squares)(const float* x, size_t count);
  void (*adamw)(const AdamWStep& step, const float* grad, size_t count, float* theta, float* m,
                float* v);
  // DiLoCo's outer step (SGD with Nesterov momentum as in torch.optim.SGD):
  //   momentum = mu momentum + delta; theta = theta_start -= lr (delta + mu momentum).
  void (*nesterov)(const float* delta, size_t count, float lr, float mu, float* momentum,
                   float* theta_start, float* theta);
};

// The fastest set that this CPU runs; chosen once.
const Kernels& BestKernels();
// Baseline instructions only: the reference the others are tested against (not bit for bit: fused
// multiply-add rounds once).
const Kernels& PlainKernels();
const Kernels* Avx2Kernels();  // nullptr: not on this CPU or not built

}  // namespace longhaul
