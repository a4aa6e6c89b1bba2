#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pp_group/engines/aten/model.h"
#include "pp_group/models/model.h"
#include "pp_group/stage.h"

namespace longhaul {

// A stage of any AtenModel: LibTorch's kernels, autograd within each block of each micro-batch, on
// the CPU or a GPU. Parameters and gradients are f32 whatever the compute dtype. On a GPU the
// process computes deterministically from the first stage on (RequireDeterminism). Not thread safe.
class AtenStage : public Stage {
 public:
  using NewModel = std::unique_ptr<AtenModel> (*)(const ModelSpec&, const StageOptions&,
                                                  const StageLayout&, AtenParameters*);
  AtenStage(const ModelSpec& spec, const StageOptions& options, NewModel new_model);

  const StageLayout& layout() const override { return layout_; }
  const StageShape& shape() const override { return shape_; }
  at::TensorOptions boundary() const override { return parameters_.options(); }
  bool trains() const override { return true; }
  const at::Tensor& parameters() const override { return parameters_.master(); }
  const at::Tensor& gradients() const override { return parameters_.gradient(); }
  at::Tensor head_gradient() const override { return parameters_.head_gradient(); }
  void ZeroGradients() override;
  void BeginStep(std::span<const int64_t> ids) override;
  void ParametersChanged() override { parameters_.RefreshShadow(); }

  std::unique_ptr<Activations> NewActivations(int64_t rows) const override;
  std::unique_ptr<Activations> NewForwardActivations(int64_t rows) const override;
  void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
               Activations* kept) override;
  void Loss(std::span<const int64_t> targets, float grad_scale, Activations* kept,
            std::span<double> losses) override;
  void FinishLosses() override;
  void BackwardInput(std::span<const int64_t> tokens, const at::Tensor& dy, const at::Tensor& dx,
                     Activations* kept) override;
  void BackwardWeight(Activations* kept) override;
  void Backward(std::span<const int64_t> tokens, const at::Tensor& dy, const at::Tensor& dx,
                Activations* kept) override;
  absl::Duration waited() const override { return model_->waited(); }

 private:
  struct Kept;
  void BackwardBlocks(const at::Tensor& dy, const at::Tensor& dx, Kept* kept);
  at::Tensor Uploaded(std::span<const int64_t> ids) const;
  at::Tensor OnDevice(std::span<const int64_t> ids) const;  // Uploaded, or a view of the step's
  // What Loss gives the executor, of `each` token; of a device, when FinishLosses has waited.
  void Report(const at::Tensor& each, std::span<double> losses);

  const StageLayout layout_;
  const StageShape shape_;
  const ComputeSpec compute_;
  struct LossesOnTheirWay {
    at::Tensor host;  // [n] f64, page-locked
    std::span<double> losses;
  };
  std::vector<LossesOnTheirWay> on_their_way_;
  std::span<const int64_t> step_ids_;
  at::Tensor step_ids_on_device_;
  AtenParameters parameters_;
  const std::unique_ptr<AtenModel> model_;
};

}  // namespace longhaul
