#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "pp_group/models/model_spec.h"
#include "pp_group/stage.h"

namespace longhaul {

class GptActivations;
struct Matrix;

// Stage s of S of a GPT: the parameters, and explicit forward and backward passes (no autograd
// graph: the matrix products are ATen's, all else is kernels/). float32 on the CPU. Gradients are
// summed over micro-batches into the flat gradient until ZeroGradients().
// Not thread safe. The order of every sum is fixed and does not depend on S or on the schedule.
class CpuGptStage : public Stage {
 public:
  // `cuts` as LayoutOf takes them.
  CpuGptStage(const ModelSpec& spec, int stage, int stages, uint64_t seed,
              std::span<const int64_t> cuts = {});
  ~CpuGptStage() override;

  const StageLayout& layout() const override { return layout_; }
  const StageShape& shape() const override { return shape_; }
  bool trains() const override { return true; }
  const at::Tensor& parameters() const override { return parameters_; }  // 64-byte aligned
  const at::Tensor& gradients() const override { return gradients_; }
  at::Tensor Parameter(const ParameterSlot& slot) const;  // a view
  at::Tensor Gradient(const ParameterSlot& slot) const;   // a view
  void ZeroGradients() override;

  // About 15 D + 4 heads floats per token and block.
  std::unique_ptr<Activations> NewActivations(int64_t rows) const override;
  void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
               Activations* kept) override;
  void Loss(std::span<const int64_t> targets, float grad_scale, Activations* kept,
            std::span<double> losses) override;
  void BackwardInput(std::span<const int64_t> tokens, const at::Tensor& dy, const at::Tensor& dx,
                     Activations* kept) override;
  void BackwardWeight(Activations*) override {}

 private:
  struct BlockParameters;
  struct Workspace;

  void BlockForward(const BlockParameters& block, const at::Tensor& x, const at::Tensor& y,
                    GptActivations* kept, size_t index);
  void BlockBackward(const BlockParameters& block, const at::Tensor& x, const at::Tensor& dy,
                     const at::Tensor& dx, GptActivations* kept, size_t index);
  Workspace& WorkspaceFor(int64_t tokens);
  const Matrix& LogitsFor(int64_t tokens);

  ModelSpec spec_;
  StageShape shape_;
  StageLayout layout_;
  at::Tensor parameters_, gradients_;
  std::vector<BlockParameters> blocks_;
  // One per size of micro-batch seen, and thread: the stages of a thread have one together, which stays
  // in the cache from one to the next.
  std::vector<std::shared_ptr<Workspace>> workspaces_;
  std::vector<std::unique_ptr<Matrix>> logits_;  // last stage: [n, V], one per size of micro-batch
};

}  // namespace longhaul
