#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pp_group/engines/aten/model.h"
#include "pp_group/models/model.h"

namespace longhaul {

// Rotary positions, pre-norm RMSNorm, SwiGLU, grouped queries; the head is the embedding where it
// is tied: then the last of several stages holds a copy of it, behind its other parameters (StageLayout::tied). Parameters are those of Llama in transformers, matrix by matrix.
StageLayout LlamaLayout(const ModelSpec& spec, int stage, int stages,
                        std::span<const int64_t> cuts);
std::unique_ptr<AtenModel> NewAtenLlama(const ModelSpec& spec, const StageOptions& options,
                                        const StageLayout& layout, AtenParameters* parameters);

// For models that differ in the second half of a block only.
//
// `feed_forward` adds its parameters, `per_block` of them, the first with this global index.
using AddFeedForward = void (*)(const ModelSpec& spec, const std::string& block, int64_t index,
                                LayoutBuilder* builder);
StageLayout LlamaLayoutWith(const ModelSpec& spec, int stage, int stages,
                            std::span<const int64_t> cuts, AddFeedForward feed_forward,
                            int64_t per_block);
inline constexpr double kLlamaInitialScale = 0.02;

// down(silu(gate x) * up x); gate and up [hidden, D], down [D, hidden].
at::Tensor SwiGlu(const at::Tensor& x, const AtenParameter& gate, const AtenParameter& up,
                  const AtenParameter& down);

class LlamaModel : public AtenModel {
 public:
  LlamaModel(const ModelSpec& spec, const StageLayout& layout, AtenParameters* parameters);

  at::Tensor Embed(const at::Tensor& ids) override;
  void EmbedBackward(const at::Tensor& ids, const at::Tensor& dx) override;
  at::Tensor Block(int64_t index, const at::Tensor& x) override;
  at::Tensor Logits(const at::Tensor& x) override;

 protected:
  // [n, D], normalised -> [n, D], which is added to the residual stream.
  virtual at::Tensor FeedForward(int64_t index, const at::Tensor& x) = 0;

 private:
  struct Attention {
    AtenParameter norm, q, k, v, out, feed_forward_norm;
  };
  const ModelSpec spec_;
  RotaryTable rotary_;
  std::vector<Attention> blocks_;
  AtenParameter embedding_, norm_, head_;
};

}  // namespace longhaul
