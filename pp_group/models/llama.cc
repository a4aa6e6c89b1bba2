#include "pp_group/models/llama.h"

#include <cmath>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr int64_t kAttentionParameters = 6;  // two norms and four matrices

void AddAttention(const ModelSpec& spec, const std::string& name, int64_t index,
                  LayoutBuilder* builder) {
  const int64_t d = spec.width, kv = d / spec.heads * spec.key_heads();
  const double residual = kLlamaInitialScale / std::sqrt(2.0 * static_cast<double>(spec.blocks));
  builder->Vector(name + "norm1.weight", index + 0, d, 1);
  builder->Matrix(name + "attention.q", index + 1, d, d, kLlamaInitialScale);
  builder->Matrix(name + "attention.k", index + 2, kv, d, kLlamaInitialScale);
  builder->Matrix(name + "attention.v", index + 3, kv, d, kLlamaInitialScale);
  builder->Matrix(name + "attention.out", index + 4, d, d, residual, StreamVectors::kColumns);
  builder->Vector(name + "norm2.weight", index + 5, d, 1);
}

constexpr int64_t kSwiGluParameters = 3;
void AddSwiGlu(const ModelSpec& spec, const std::string& name, int64_t index,
               LayoutBuilder* builder) {
  const int64_t d = spec.width, hidden = spec.hidden_width();
  const double residual = kLlamaInitialScale / std::sqrt(2.0 * static_cast<double>(spec.blocks));
  builder->Matrix(name + "mlp.gate", index + 0, hidden, d, kLlamaInitialScale);
  builder->Matrix(name + "mlp.up", index + 1, hidden, d, kLlamaInitialScale);
  builder->Matrix(name + "mlp.down", index + 2, d, hidden, residual, StreamVectors::kColumns);
}

// The first stage's, and of a tied head the last stage's too. Clipped by itself wherever it lies.
void AddEmbedding(const ModelSpec& spec, LayoutBuilder* builder) {
  builder->BeginClipGroup();
  if (spec.tied_head) {
    builder->TiedMatrix("embedding.token", 0, spec.vocab, spec.width, kLlamaInitialScale);
  } else {
    builder->Matrix("embedding.token", 0, spec.vocab, spec.width, kLlamaInitialScale,
                    StreamVectors::kRows);
  }
}

class DenseLlama : public LlamaModel {
 public:
  DenseLlama(const ModelSpec& spec, const StageLayout& layout, AtenParameters* parameters)
      : LlamaModel(spec, layout, parameters) {
    for (int64_t b = 0; b < layout.num_blocks; ++b) {
      const std::string name = absl::StrCat("block", layout.first_block + b, ".mlp.");
      mlps_.push_back({parameters->Find(name + "gate"), parameters->Find(name + "up"),
                       parameters->Find(name + "down")});
    }
  }

 protected:
  at::Tensor FeedForward(int64_t index, const at::Tensor& x) override {
    const Mlp& mlp = mlps_[static_cast<size_t>(index)];
    return SwiGlu(x, mlp.gate, mlp.up, mlp.down);
  }

 private:
  struct Mlp {
    AtenParameter gate, up, down;
  };
  std::vector<Mlp> mlps_;
};

}  // namespace

at::Tensor SwiGlu(const at::Tensor& x, const AtenParameter& gate, const AtenParameter& up,
                  const AtenParameter& down) {
  return Linear(at::silu(Linear(x, gate)) * Linear(x, up), down);
}

LlamaModel::LlamaModel(const ModelSpec& spec, const StageLayout& layout, AtenParameters* parameters)
    : spec_(spec),
      rotary_(NewRotaryTable(spec.context, spec.width / spec.heads, spec.rope_theta,
                             parameters->options())) {
  const auto find = [&](const std::string& name) { return parameters->Find(name); };
  for (int64_t b = 0; b < layout.num_blocks; ++b) {
    const std::string name = absl::StrCat("block", layout.first_block + b, ".");
    blocks_.push_back({find(name + "norm1.weight"), find(name + "attention.q"),
                       find(name + "attention.k"), find(name + "attention.v"),
                       find(name + "attention.out"), find(name + "norm2.weight")});
  }
  if (layout.first()) embedding_ = find("embedding.token");
  if (layout.last()) {
    norm_ = find("norm.weight");
    head_ = spec.tied_head ? parameters->FindTiedHead("embedding.token") : find("head");
  }
}

at::Tensor LlamaModel::Embed(const at::Tensor& ids) { return at::embedding(embedding_.value, ids); }

void LlamaModel::EmbedBackward(const at::Tensor& ids, const at::Tensor& dx) {
  embedding_.gradient.index_add_(0, ids, dx.to(at::kFloat));
}

at::Tensor LlamaModel::Block(int64_t index, const at::Tensor& x) {
  const Attention& p = blocks_[static_cast<size_t>(index)];
  const at::Tensor h = RmsNorm(x, p.norm);
  const auto heads = [&](const AtenParameter& w, int64_t count) {
    return SplitHeads(Linear(h, w), spec_.context, count);
  };
  const at::Tensor attended = CausalAttention(Rotate(heads(p.q, spec_.heads), rotary_),
                                              Rotate(heads(p.k, spec_.key_heads()), rotary_),
                                              heads(p.v, spec_.key_heads()));
  const at::Tensor residual = x + Linear(attended, p.out);
  return residual + FeedForward(index, RmsNorm(residual, p.feed_forward_norm));
}

at::Tensor LlamaModel::Logits(const at::Tensor& x) { return Linear(RmsNorm(x, norm_), head_); }

StageLayout LlamaLayoutWith(const ModelSpec& spec, int stage, int stages,
                            std::span<const int64_t> cuts, AddFeedForward feed_forward,
                            int64_t per_block) {
  StageLayout layout = EmptyLayout(spec.blocks, stage, stages, cuts);
  LayoutBuilder builder(&layout);
  const int64_t stride = kAttentionParameters + per_block;
  if (layout.first()) AddEmbedding(spec, &builder);
  for (int64_t b = layout.first_block; b < layout.first_block + layout.num_blocks; ++b) {
    const std::string name = absl::StrCat("block", b, ".");
    const int64_t index = 1 + b * stride;
    builder.BeginClipGroup();
    AddAttention(spec, name, index, &builder);
    feed_forward(spec, name, index + kAttentionParameters, &builder);
  }
  if (layout.last()) {
    const int64_t index = 1 + spec.blocks * stride;
    builder.BeginClipGroup();
    builder.Vector("norm.weight", index, spec.width, 1);
    if (!spec.tied_head) {
      builder.Matrix("head", index + 1, spec.vocab, spec.width, kLlamaInitialScale);
    } else if (!layout.first()) {
      AddEmbedding(spec, &builder);
    }
  }
  return layout;
}

StageLayout LlamaLayout(const ModelSpec& spec, int stage, int stages,
                        std::span<const int64_t> cuts) {
  return LlamaLayoutWith(spec, stage, stages, cuts, AddSwiGlu, kSwiGluParameters);
}

std::unique_ptr<AtenModel> NewAtenLlama(const ModelSpec& spec, const StageOptions&,
                                        const StageLayout& layout, AtenParameters* parameters) {
  return std::make_unique<DenseLlama>(spec, layout, parameters);
}

}  // namespace longhaul
