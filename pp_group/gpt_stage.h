#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "pp_group/gpt_layout.h"

namespace longhaul {

// What one micro-batch leaves behind between its forward and its backward on one stage. Reused
// from step to step; n = rows * T token rows. About 15 D + 4 heads floats per token and block.
class Activations;

// Stage s of S of a GPT: the parameters, and explicit forward and backward passes (no autograd
// graph: the matrix products are ATen's, all else is kernels/). float32 on the CPU. Gradients are
// summed over micro-batches into the flat gradient until ZeroGradients().
// Not thread safe. The order of every sum is fixed and does not depend on S or on the schedule.
class GptStage {
 public:
  // `cuts` as LayoutOf takes them.
  GptStage(const GptSpec& spec, int stage, int stages, uint64_t seed,
           std::span<const int64_t> cuts = {});
  ~GptStage();

  const StageLayout& layout() const { return layout_; }
  const GptSpec& spec() const { return spec_; }
  // [layout().flat_elements] each, f32, contiguous, 64-byte aligned. Writing into them is allowed
  // between steps; the storage stays where it is.
  const at::Tensor& parameters() const { return parameters_; }
  const at::Tensor& gradients() const { return gradients_; }
  at::Tensor Parameter(const ParameterSlot& slot) const;  // a view
  at::Tensor Gradient(const ParameterSlot& slot) const;   // a view
  void ZeroGradients();

  std::unique_ptr<Activations> NewActivations(int64_t rows) const;

  // x: [n, D] or, on stage 0, empty: then `tokens` ([n], row after row) is embedded. Writes the
  // stage's output to y ([n, D]; unused on the last stage). x and y must live until the backward.
  void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
               Activations* kept);

  // Last stage, after Forward: per-token losses in nat ([n]) against `targets` ([n]). With
  // `grad_scale` != 0 also starts the backward pass: the gradient of grad_scale * (sum of losses)
  // goes into the final norm, the head and `kept`, so that the logits need not outlive the call.
  void Loss(std::span<const int64_t> targets, float grad_scale, Activations* kept,
            std::span<double> losses);

  // dy: gradient of y ([n, D]; unused on the last stage, where Loss has made it). Writes the
  // gradient of x to dx ([n, D]; unused on stage 0). `tokens` as given to Forward.
  void Backward(std::span<const int64_t> tokens, const at::Tensor& dy, const at::Tensor& dx,
                Activations* kept);

 private:
  struct BlockParameters;
  struct Workspace;

  void BlockForward(const BlockParameters& block, const at::Tensor& x, const at::Tensor& y,
                    Activations* kept, size_t index);
  void BlockBackward(const BlockParameters& block, const at::Tensor& x, const at::Tensor& dy,
                     const at::Tensor& dx, Activations* kept, size_t index);
  Workspace& WorkspaceFor(int64_t tokens);

  GptSpec spec_;
  StageLayout layout_;
  at::Tensor parameters_, gradients_;
  std::vector<BlockParameters> blocks_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one per size of micro-batch seen
};

}  // namespace longhaul
