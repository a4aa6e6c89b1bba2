#include "pp_group/models/models.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr int64_t kParametersPerBlock = 8;
constexpr double kInitialScale = 0.02;  // GPT-2's

void AddBlock(const ModelSpec& spec, int64_t block, LayoutBuilder* builder) {
  const int64_t d = spec.width;
  const int64_t index = 2 + block * kParametersPerBlock;
  // The two matrices that write into the residual stream start smaller, as in GPT-2.
  const double residual_scale = kInitialScale / std::sqrt(2.0 * static_cast<double>(spec.blocks));
  const std::string name = absl::StrCat("block", block, ".");
  builder->BeginClipGroup();
  builder->Vector(name + "norm1.weight", index + 0, d, 1);
  builder->Vector(name + "norm1.bias", index + 1, d, 0);
  builder->Matrix(name + "attention.qkv", index + 2, 3 * d, d, kInitialScale);
  builder->Matrix(name + "attention.out", index + 3, d, d, residual_scale, StreamVectors::kColumns);
  builder->Vector(name + "norm2.weight", index + 4, d, 1);
  builder->Vector(name + "norm2.bias", index + 5, d, 0);
  builder->Matrix(name + "mlp.up", index + 6, 4 * d, d, kInitialScale);
  builder->Matrix(name + "mlp.down", index + 7, d, 4 * d, residual_scale, StreamVectors::kColumns);
}

class GptModel : public AtenModel {
 public:
  GptModel(const ModelSpec& spec, const StageLayout& layout, AtenParameters* parameters)
      : spec_(spec) {
    const auto find = [&](const std::string& name) { return parameters->Find(name); };
    for (int64_t b = 0; b < layout.num_blocks; ++b) {
      const std::string name = absl::StrCat("block", layout.first_block + b, ".");
      blocks_.push_back({find(name + "norm1.weight"), find(name + "norm1.bias"),
                         find(name + "attention.qkv"), find(name + "attention.out"),
                         find(name + "norm2.weight"), find(name + "norm2.bias"),
                         find(name + "mlp.up"), find(name + "mlp.down")});
    }
    if (layout.first()) {
      token_ = find("embedding.token");
      position_ = find("embedding.position");
    }
    if (layout.last()) {
      norm_weight_ = find("norm.weight");
      norm_bias_ = find("norm.bias");
      head_ = find("head");
    }
  }

  at::Tensor Embed(const at::Tensor& ids) override {
    const at::Tensor x = at::embedding(token_.value, ids.view({-1, spec_.context}));
    return (x + position_.value).view({-1, spec_.width});
  }
  void EmbedBackward(const at::Tensor& ids, const at::Tensor& dx) override {
    token_.gradient.index_add_(0, ids, dx.to(at::kFloat));
    position_.gradient.add_(
        dx.view({-1, spec_.context, spec_.width}).sum(at::IntArrayRef{0}, false, at::kFloat));
  }
  at::Tensor Block(int64_t index, const at::Tensor& x) override {
    const Parameters& p = blocks_[static_cast<size_t>(index)];
    const std::vector<at::Tensor> qkv =
        Linear(LayerNorm(x, p.norm1_weight, p.norm1_bias), p.qkv).chunk(3, 1);
    const auto heads = [&](const at::Tensor& t) {
      return SplitHeads(t, spec_.context, spec_.heads);
    };
    const at::Tensor residual =
        x + Linear(CausalAttention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2])), p.out);
    const at::Tensor hidden = Linear(LayerNorm(residual, p.norm2_weight, p.norm2_bias), p.up);
    return residual + Linear(at::gelu(hidden, "tanh"), p.down);
  }
  at::Tensor Logits(const at::Tensor& x) override {
    return Linear(LayerNorm(x, norm_weight_, norm_bias_), head_);
  }

 private:
  struct Parameters {
    AtenParameter norm1_weight, norm1_bias, qkv, out, norm2_weight, norm2_bias, up, down;
  };
  const ModelSpec spec_;
  std::vector<Parameters> blocks_;
  AtenParameter token_, position_, norm_weight_, norm_bias_, head_;
};

}  // namespace

StageLayout GptLayout(const ModelSpec& spec, int stage, int stages, std::span<const int64_t> cuts) {
  StageLayout layout = EmptyLayout(spec.blocks, stage, stages, cuts);
  LayoutBuilder builder(&layout);
  if (layout.first()) {
    builder.BeginClipGroup();
    builder.Matrix("embedding.token", 0, spec.vocab, spec.width, kInitialScale,
                   StreamVectors::kRows);
    builder.Matrix("embedding.position", 1, spec.context, spec.width, kInitialScale,
                   StreamVectors::kRows);
  }
  for (int64_t b = 0; b < layout.num_blocks; ++b) AddBlock(spec, layout.first_block + b, &builder);
  if (layout.last()) {
    const int64_t index = 2 + spec.blocks * kParametersPerBlock;
    builder.BeginClipGroup();
    builder.Vector("norm.weight", index + 0, spec.width, 1);
    builder.Vector("norm.bias", index + 1, spec.width, 0);
    builder.Matrix("head", index + 2, spec.vocab, spec.width, kInitialScale);
  }
  return layout;
}

std::unique_ptr<AtenModel> NewAtenGpt(const ModelSpec& spec, const StageOptions&,
                                      const StageLayout& layout, AtenParameters* parameters) {
  return std::make_unique<GptModel>(spec, layout, parameters);
}

}  // namespace longhaul
