#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/time/time.h"
#include "pp_group/injected_compute.h"
#include "pp_group/stage.h"

namespace longhaul {

// A stage that computes nothing and takes its time: every call writes what a link needs, then
// sleeps until the call has taken as long as the table says. A machine can so run the pipeline of
// another with more cores or faster ones.
//
// What crosses is seeded: a normal [n, D] drawn once, scaled by another factor for every
// message, so that codecs see other values each time and the same ones in every run. Parameters
// move by a seeded normal in every step, so that outer deltas are no zeros. No loss: nothing is
// trained.
class InjectedStage : public Stage {
 public:
  // Borrows `now`.
  InjectedStage(const StageShape& shape, StageLayout layout, uint64_t seed, InjectedCompute compute,
                const std::function<absl::Duration()>* now);

  const StageLayout& layout() const override { return layout_; }
  const StageShape& shape() const override { return shape_; }
  bool trains() const override { return false; }
  const at::Tensor& parameters() const override { return parameters_; }
  const at::Tensor& gradients() const override { return movement_; }
  void ZeroGradients() override {}

  std::unique_ptr<Activations> NewActivations(int64_t rows) const override;
  void Forward(std::span<const int64_t> tokens, const at::Tensor& x, const at::Tensor& y,
               Activations* kept) override;
  void Loss(std::span<const int64_t> targets, float grad_scale, Activations* kept,
            std::span<double> losses) override;
  void BackwardInput(std::span<const int64_t> tokens, const at::Tensor& dy, const at::Tensor& dx,
                     Activations* kept) override;
  void BackwardWeight(Activations*) override {}
  void UpdateItself() override;

 private:
  void Fill(const at::Tensor& message);
  void SleepUntil(absl::Duration end);

  const StageShape shape_;
  const StageLayout layout_;
  const uint64_t seed_;
  const InjectedCompute compute_;
  const std::function<absl::Duration()>& now_;
  at::Tensor parameters_, movement_;  // [N] f32
  at::Tensor values_;                 // [n, D] f32; made with the first message
  uint64_t messages_ = 0;
};

}  // namespace longhaul
