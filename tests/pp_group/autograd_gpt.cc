#include "tests/pp_group/autograd_gpt.h"

#include <string>

namespace longhaul {
namespace {

class Parameters {
 public:
  Parameters(const StageLayout& layout, const at::Tensor& flat) : layout_(layout), flat_(flat) {}
  at::Tensor operator()(const std::string& name) const {
    for (const ParameterSlot& slot : layout_.slots) {
      if (slot.name != name) continue;
      const at::Tensor view = flat_.narrow(0, slot.offset, slot.elements());
      return slot.decays ? view.view({slot.rows, slot.cols}) : view;
    }
    TORCH_CHECK(false, "no parameter ", name);
  }

 private:
  const StageLayout& layout_;
  const at::Tensor& flat_;
};

at::Tensor Norm(const at::Tensor& x, const Parameters& p, const std::string& name) {
  return at::layer_norm(x, {x.size(-1)}, p(name + ".weight"), p(name + ".bias"));
}

at::Tensor Heads(const at::Tensor& x, int64_t rows, const ModelSpec& spec) {
  return x.reshape({rows, spec.context, spec.heads, spec.width / spec.heads}).transpose(1, 2);
}

at::Tensor Block(const at::Tensor& x, const Parameters& p, const std::string& name, int64_t rows,
                 const ModelSpec& spec) {
  const auto qkv = at::linear(Norm(x, p, name + "norm1"), p(name + "attention.qkv")).chunk(3, -1);
  const at::Tensor attended = at::scaled_dot_product_attention(
      Heads(qkv[0], rows, spec), Heads(qkv[1], rows, spec), Heads(qkv[2], rows, spec),
      /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true);
  const at::Tensor joined = attended.transpose(1, 2).reshape({rows * spec.context, spec.width});
  const at::Tensor middle = x + at::linear(joined, p(name + "attention.out"));
  const at::Tensor hidden =
      at::gelu(at::linear(Norm(middle, p, name + "norm2"), p(name + "mlp.up")), "tanh");
  return middle + at::linear(hidden, p(name + "mlp.down"));
}

at::Tensor Ids(std::span<const int64_t> ids) {
  return at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size()), at::kLong);
}

}  // namespace

at::Tensor AutogradLoss(const ModelSpec& spec, const at::Tensor& flat,
                        std::span<const int64_t> tokens, std::span<const int64_t> targets) {
  const StageLayout layout = LayoutOf(spec, 0, 1);
  const Parameters p(layout, flat);
  const int64_t rows = static_cast<int64_t>(tokens.size()) / spec.context;
  at::Tensor x =
      at::embedding(p("embedding.token"), Ids(tokens)) + p("embedding.position").repeat({rows, 1});
  for (int64_t b = 0; b < spec.blocks; ++b) {
    x = Block(x, p, "block" + std::to_string(b) + ".", rows, spec);
  }
  return at::cross_entropy_loss(at::linear(Norm(x, p, "norm"), p("head")), Ids(targets));
}

}  // namespace longhaul
