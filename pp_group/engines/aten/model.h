#pragma once

// Private to pp_group's LibTorch engine: what a model file fills in.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/time/time.h"
#include "pp_group/engines/aten/ops.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// The parameters of one stage: views of one flat f32 master and one flat f32 gradient, and, where
// the compute dtype is another, of a shadow of the master in it.
class AtenParameters {
 public:
  // `initial`: [flat_elements] f32 on the host. `flat`: as StageOptions has it.
  AtenParameters(const StageLayout& layout, const at::Tensor& initial, const at::Tensor& flat,
                 at::Device device, at::ScalarType dtype);
  AtenParameters(const AtenParameters&) = delete;
  AtenParameters& operator=(const AtenParameters&) = delete;

  // A parameter of the stage by its slot's name; an Error of c10 where there is none.
  AtenParameter Find(const std::string& name);
  // The tied matrix (StageLayout::tied) as the head has it: its gradient is that of the products
  // alone, in head_gradient() where the lookups are of this stage too.
  AtenParameter FindTiedHead(const std::string& name);

  const at::Tensor& master() const { return master_; }
  const at::Tensor& gradient() const { return gradient_; }
  const at::Tensor& head_gradient() const { return head_gradient_; }  // as Stage's
  at::TensorOptions options() const { return shadow_.options(); }     // of activations
  void RefreshShadow();

  // Where weight gradients go that are put off; null: they are added at once.
  void PutOff(std::vector<WeightGradient>* later) { later_ = later; }

 private:
  const StageLayout& layout_;
  at::Tensor master_, gradient_, shadow_;  // the shadow is the master where dtypes are equal
  at::Tensor head_gradient_;
  std::vector<WeightGradient>* later_ = nullptr;
};

// The mathematics of one stage of a model. Blocks are counted within the stage. Runs with autograd
// recording or not; every call gives the same bits for the same input.
class AtenModel {
 public:
  virtual ~AtenModel() = default;

  // First stage: ids [n] -> [n, D], and the gradient of the embeddings from that of their output.
  virtual at::Tensor Embed(const at::Tensor& ids) = 0;
  virtual void EmbedBackward(const at::Tensor& ids, const at::Tensor& dx) = 0;
  // [n, D] -> [n, D].
  virtual at::Tensor Block(int64_t index, const at::Tensor& x) = 0;
  // Last stage: [n, D] -> [n, V].
  virtual at::Tensor Logits(const at::Tensor& x) = 0;
  // As Stage::waited.
  virtual absl::Duration waited() const { return absl::ZeroDuration(); }
};

}  // namespace longhaul
