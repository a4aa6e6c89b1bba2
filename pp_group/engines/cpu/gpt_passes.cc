#include "pp_group/engines/cpu/gpt_activations.h"

namespace longhaul {
namespace {

// out = a b, out = c + a b, and sum += a b without temporaries.
void Product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result = out;
  at::mm_out(result, a, b);
}
void ProductPlus(const at::Tensor& out, const at::Tensor& c, const at::Tensor& a,
                 const at::Tensor& b) {
  at::Tensor result = out;
  at::addmm_out(result, c, a, b);
}
void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result = sum;
  at::addmm_out(result, sum, a, b);
}
float* Values(const at::Tensor& t) { return t.data_ptr<float>(); }

const Kernels& kernels() {
  static const Kernels& best = BestKernels();
  return best;
}

void Embed(const at::Tensor& token, const at::Tensor& position, std::span<const int64_t> ids,
           const at::Tensor& x) {
  const size_t d = static_cast<size_t>(x.size(1)), context = static_cast<size_t>(position.size(0));
  const float *tokens = Values(token), *positions = Values(position);
  float* out = Values(x);
  for (size_t i = 0; i < ids.size(); ++i, out += d) {
    const float* a = tokens + static_cast<size_t>(ids[i]) * d;
    const float* b = positions + i % context * d;
    for (size_t j = 0; j < d; ++j) out[j] = a[j] + b[j];
  }
}

void EmbedBackward(const at::Tensor& dx, std::span<const int64_t> ids, const at::Tensor& token,
                   const at::Tensor& position) {
  const size_t d = static_cast<size_t>(dx.size(1)), context = static_cast<size_t>(position.size(0));
  float *tokens = Values(token), *positions = Values(position);
  const float* in = Values(dx);
  for (size_t i = 0; i < ids.size(); ++i, in += d) {
    float* a = tokens + static_cast<size_t>(ids[i]) * d;
    float* b = positions + i % context * d;
    for (size_t j = 0; j < d; ++j) a[j] += in[j];
    for (size_t j = 0; j < d; ++j) b[j] += in[j];
  }
}

// The executor keeps what NewActivations made.
GptActivations* OfGpt(Activations* activations) {
  return static_cast<GptActivations*>(activations);
}

}  // namespace

void CpuGptStage::BlockForward(const BlockParameters& p, const at::Tensor& x, const at::Tensor& y,
                               GptActivations* kept, size_t index) {
  const BlockActivations& a = kept->blocks[index];
  const size_t n = static_cast<size_t>(kept->tokens), d = static_cast<size_t>(spec_.width);
  float* scratch = Values(WorkspaceFor(kept->tokens).scratch);
  kernels().layer_norm(Values(x), p.norm1_weight, p.norm1_bias, n, d, a.norm1.values(),
                       a.statistic(0), a.statistic(1));
  Product(a.qkv.tensor, a.norm1.tensor, p.qkv.transposed);
  kernels().attention(kept->shape, a.qkv.values(), a.attention.values(), Values(a.log_sum),
                      scratch);
  ProductPlus(a.residual, x, a.attention.tensor, p.out.transposed);
  kernels().layer_norm(Values(a.residual), p.norm2_weight, p.norm2_bias, n, d, a.norm2.values(),
                       a.statistic(2), a.statistic(3));
  Product(a.slope.tensor, a.norm2.tensor, p.up.transposed);
  kernels().gelu(a.slope.values(), n * 4 * d, a.hidden.values());
  ProductPlus(y, a.residual, a.hidden.tensor, p.down.transposed);
}

void CpuGptStage::BlockBackward(const BlockParameters& p, const at::Tensor& x, const at::Tensor& dy,
                                const at::Tensor& dx, GptActivations* kept, size_t index) {
  const BlockActivations& a = kept->blocks[index];
  const size_t n = static_cast<size_t>(kept->tokens), d = static_cast<size_t>(spec_.width);
  Workspace& w = WorkspaceFor(kept->tokens);
  const at::Tensor dy_transposed = dy.t();
  Product(w.wide.tensor, dy, p.down.tensor);
  AddProduct(p.down_grad, dy_transposed, a.hidden.tensor);
  kernels().multiply(a.slope.values(), n * 4 * d, w.wide.values());
  Product(w.narrow, w.wide.tensor, p.up.tensor);
  AddProduct(p.up_grad, w.wide.transposed, a.norm2.tensor);
  kernels().layer_norm_backward(Values(w.narrow), Values(a.residual), p.norm2_weight,
                                a.statistic(2), a.statistic(3), Values(dy), n, d,
                                Values(w.residual), p.norm2_weight_grad, p.norm2_bias_grad,
                                Values(w.scratch));
  Product(w.narrow, w.residual, p.out.tensor);
  AddProduct(p.out_grad, w.residual_matrix.transposed, a.attention.tensor);
  kernels().attention_backward(kept->shape, a.qkv.values(), a.attention.values(), Values(a.log_sum),
                               Values(w.narrow), w.triple.values(), Values(w.scratch));
  Product(w.narrow, w.triple.tensor, p.qkv.tensor);
  AddProduct(p.qkv_grad, w.triple.transposed, a.norm1.tensor);
  kernels().layer_norm_backward(Values(w.narrow), Values(x), p.norm1_weight, a.statistic(0),
                                a.statistic(1), Values(w.residual), n, d, Values(dx),
                                p.norm1_weight_grad, p.norm1_bias_grad, Values(w.scratch));
}

void CpuGptStage::Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
                          Activations* activations) {
  GptActivations* const kept = OfGpt(activations);
  if (layout_.first()) {
    Embed(Parameter(layout_.slots[0]), Parameter(layout_.slots[1]), tokens, kept->input);
  } else {
    kept->input = x;
  }
  kept->output = layout_.last() ? kept->final_output : y;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const at::Tensor& in = b == 0 ? kept->input : kept->streams[b - 1];
    const at::Tensor& out = b + 1 == blocks_.size() ? kept->output : kept->streams[b];
    BlockForward(blocks_[b], in, out, kept, b);
  }
}

void CpuGptStage::Loss(std::span<const int64_t> targets, float grad_scale, Activations* activations,
                       std::span<double> losses) {
  GptActivations* const kept = OfGpt(activations);
  const size_t n = targets.size(), d = static_cast<size_t>(spec_.width);
  Workspace& w = WorkspaceFor(kept->tokens);
  const ParameterSlot* slots = &layout_.slots[layout_.slots.size() - 3];  // norm, head
  float* statistics = Values(kept->final_statistics);
  const float* weight = Values(parameters_) + slots[0].offset;
  const at::Tensor head = Parameter(slots[2]);
  kernels().layer_norm(Values(kept->output), weight, Values(parameters_) + slots[1].offset, n, d,
                       kept->final_norm.values(), statistics, statistics + n);
  const Matrix& logits = LogitsFor(kept->tokens);
  Product(logits.tensor, kept->final_norm.tensor, head.t());
  kernels().cross_entropy(logits.values(), targets.data(), n, static_cast<size_t>(spec_.vocab),
                          grad_scale, losses.data());
  if (grad_scale == 0) return;
  AddProduct(Gradient(slots[2]), logits.transposed, kept->final_norm.tensor);
  Product(w.narrow, logits.tensor, head);
  // No skip connection around the final norm: a zero residual.
  w.residual.zero_();
  kernels().layer_norm_backward(Values(w.narrow), Values(kept->output), weight, statistics,
                                statistics + n, Values(w.residual), n, d,
                                Values(kept->final_gradient), Values(gradients_) + slots[0].offset,
                                Values(gradients_) + slots[1].offset, Values(w.scratch));
}

void CpuGptStage::BackwardInput(std::span<const int64_t> tokens, const at::Tensor& dy,
                                const at::Tensor& dx, Activations* activations) {
  GptActivations* const kept = OfGpt(activations);
  Workspace& w = WorkspaceFor(kept->tokens);
  at::Tensor flowing = layout_.last() ? kept->final_gradient : dy;
  for (size_t b = blocks_.size(); b-- > 0;) {
    const at::Tensor& x = b == 0 ? kept->input : kept->streams[b - 1];
    const at::Tensor& out = b == 0 && !layout_.first() ? dx : w.flow[b % 2].tensor;
    BlockBackward(blocks_[b], x, flowing, out, kept, b);
    flowing = out;
  }
  if (layout_.first()) {
    EmbedBackward(flowing, tokens, Gradient(layout_.slots[0]), Gradient(layout_.slots[1]));
  }
}

}  // namespace longhaul
