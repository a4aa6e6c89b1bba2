#include "pp_group/engines/aten/ops.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

namespace longhaul {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class LinearOp : public torch::autograd::Function<LinearOp> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const AtenParameter& w) {
    context->save_for_backward({x});
    context->saved_data["weight"] = w.value;
    context->saved_data["gradient"] = w.gradient;
    context->saved_data["later"] = reinterpret_cast<int64_t>(w.later);
    return at::mm(x, w.value.t());
  }
  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    WeightGradient work{context->saved_data["gradient"].toTensor(), dy[0],
                        context->get_saved_variables()[0].detach()};
    at::Tensor dx = at::mm(dy[0], context->saved_data["weight"].toTensor());
    auto* const later =
        *reinterpret_cast<std::vector<WeightGradient>**>(context->saved_data["later"].toInt());
    if (later != nullptr) {
      later->push_back(std::move(work));
    } else {
      AddWeightGradient(work);
    }
    return {dx, {}};
  }
};

class WithLossOp : public torch::autograd::Function<WithLossOp> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& loss,
                            double weight) {
    context->saved_data["gradient"] = at::full_like(loss, weight);
    return y.view_as(y);
  }
  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    return {dy[0], context->saved_data["gradient"].toTensor(), {}};
  }
};

at::Tensor HalvesTurned(const at::Tensor& x) {
  const int64_t half = x.size(-1) / 2;
  return at::cat({x.narrow(-1, half, half).neg(), x.narrow(-1, 0, half)}, -1);
}

}  // namespace

void AddWeightGradient(const WeightGradient& work) {
  at::Tensor gradient = work.gradient;
  if (work.x.scalar_type() == at::kFloat) {
    gradient.addmm_(work.dy.t(), work.x);
  } else if (work.x.is_cuda()) {  // the products are summed, and added, in float32
    at::addmm_out(gradient, gradient, work.dy.t(), work.x, at::kFloat);
  } else {  // the CPU has no such product
    gradient.add_(at::mm(work.dy.t(), work.x));
  }
}

AtenParameter AtenParameter::Rows(int64_t begin, int64_t count) const {
  return {value.narrow(0, begin, count), gradient.narrow(0, begin, count), later};
}

at::Tensor Linear(const at::Tensor& x, const AtenParameter& w) { return LinearOp::apply(x, w); }

at::Tensor SplitHeads(const at::Tensor& x, int64_t context, int64_t heads) {
  return x.view({x.size(0) / context, context, heads, x.size(1) / heads}).transpose(1, 2);
}

at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t group = q.size(1) / k.size(1);
  // Each head of keys and values stands for `group` heads of queries: in the kernel, where that can.
  const bool in_kernel = group > 1 && q.is_cuda() &&
                         at::_fused_sdp_choice(q, k, v, {}, 0, true, {}, /*enable_gqa=*/true) ==
                             static_cast<int64_t>(at::SDPBackend::flash_attention);
  const auto repeated = [&](const at::Tensor& x) {
    return group == 1 || in_kernel ? x : at::repeat_interleave(x, group, /*dim=*/1);
  };
  const at::Tensor out =
      at::scaled_dot_product_attention(q, repeated(k), repeated(v), /*attn_mask=*/{},
                                       /*dropout_p=*/0, /*is_causal=*/true, /*scale=*/{},
                                       /*enable_gqa=*/in_kernel);
  return out.transpose(1, 2).reshape({q.size(0) * q.size(2), q.size(1) * q.size(3)});
}

RotaryTable NewRotaryTable(int64_t context, int64_t head_width, double theta,
                           const at::TensorOptions& options) {
  const at::Tensor even = at::arange(0, head_width, 2, at::kFloat);
  const at::Tensor frequency = at::pow(theta, even / static_cast<double>(head_width)).reciprocal();
  const at::Tensor half = at::outer(at::arange(context, at::kFloat), frequency);
  const at::Tensor angle = at::cat({half, half}, 1);
  return {at::cos(angle).to(options), at::sin(angle).to(options)};
}

at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table) {
  return x * table.cos + HalvesTurned(x) * table.sin;
}

at::Tensor RmsNorm(const at::Tensor& x, const AtenParameter& weight) {
  return at::rms_norm(x, {x.size(-1)}, weight.value.to(x.scalar_type()), kNormEps);
}

at::Tensor LayerNorm(const at::Tensor& x, const AtenParameter& weight, const AtenParameter& bias) {
  const at::ScalarType dtype = x.scalar_type();
  return at::layer_norm(x, {x.size(-1)}, weight.value.to(dtype), bias.value.to(dtype), kNormEps);
}

at::Tensor WithLoss(const at::Tensor& y, const at::Tensor& loss, double weight) {
  return WithLossOp::apply(y, loss, weight);
}

struct AutogradScope::Guards {
  Guards(c10::DispatchKeySet included, c10::DispatchKeySet excluded, bool records)
      : dispatch(included, excluded), mode(records) {}
  c10::impl::ForceDispatchKeyGuard dispatch;
  at::AutoGradMode mode;
};

AutogradScope::AutogradScope(bool records) {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  guards_ = std::make_unique<Guards>(
      keys.included_, keys.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView, records);
}
AutogradScope::~AutogradScope() = default;

at::Tensor BackwardThrough(const at::Tensor& y, const at::Tensor& dy, const at::Tensor& x) {
  y.backward(dy);
  return x.grad();
}

}  // namespace longhaul
