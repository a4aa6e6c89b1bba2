#pragma once

#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "pp_group/stage.h"

namespace longhaul {

// A stage that computes nothing: flat buffers of a layout, for what only reads and updates them.
class FlatStage : public Stage {
 public:
  explicit FlatStage(StageLayout layout)
      : layout_(std::move(layout)),
        parameters_(at::zeros({layout_.flat_elements}, at::kFloat)),
        gradients_(at::zeros({layout_.flat_elements}, at::kFloat)) {}

  const StageLayout& layout() const override { return layout_; }
  const StageShape& shape() const override { return shape_; }
  bool trains() const override { return true; }
  const at::Tensor& parameters() const override { return parameters_; }
  const at::Tensor& gradients() const override { return gradients_; }
  void ZeroGradients() override { gradients_.zero_(); }
  std::unique_ptr<Activations> NewActivations(int64_t) const override { return nullptr; }
  void Forward(std::span<const int64_t>, const at::Tensor&, const at::Tensor&,
               Activations*) override {}
  void Loss(std::span<const int64_t>, float, Activations*, std::span<double>) override {}
  void BackwardInput(std::span<const int64_t>, const at::Tensor&, const at::Tensor&,
                     Activations*) override {}
  void BackwardWeight(Activations*) override {}

 private:
  const StageLayout layout_;
  const StageShape shape_{.context = 1, .width = 1, .vocab = 2};
  const at::Tensor parameters_, gradients_;
};

}  // namespace longhaul
