#include "pp_group/engines/injected/stage.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace longhaul {
namespace {

constexpr double kParameterSpread = 0.02, kMovementSpread = 1e-4;

at::Tensor Normal(at::IntArrayRef sizes, double spread, uint64_t seed) {
  return at::empty(sizes, at::kFloat)
      .normal_(0, spread, at::make_generator<at::CPUGeneratorImpl>(seed));
}

}  // namespace

InjectedStage::InjectedStage(const StageShape& shape, StageLayout layout, uint64_t seed,
                             InjectedCompute compute, const std::function<absl::Duration()>* now)
    : shape_(shape),
      layout_(std::move(layout)),
      seed_(seed * 4096 + static_cast<uint64_t>(layout_.stage)),
      compute_(std::move(compute)),
      now_(*now),
      parameters_(Normal({layout_.flat_elements}, kParameterSpread, seed_)),
      movement_(Normal({layout_.flat_elements}, kMovementSpread, seed_ + 1)) {}

std::unique_ptr<Activations> InjectedStage::NewActivations(int64_t) const {
  return std::make_unique<Activations>();
}

void InjectedStage::Forward(std::span<const int64_t>, const at::Tensor&, const at::Tensor& y,
                            Activations*) {
  const absl::Duration end = now_() + compute_.forward[static_cast<size_t>(layout_.stage)];
  if (!layout_.last()) Fill(y);
  SleepUntil(end);
}

void InjectedStage::Loss(std::span<const int64_t>, float, Activations*, std::span<double>) {}

void InjectedStage::BackwardInput(std::span<const int64_t>, const at::Tensor&, const at::Tensor& dx,
                                  Activations*) {
  const absl::Duration end = now_() + compute_.backward[static_cast<size_t>(layout_.stage)];
  if (!layout_.first()) Fill(dx);
  SleepUntil(end);
}

void InjectedStage::UpdateItself() {
  const absl::Duration end = now_() + compute_.optimizer;
  parameters_.add_(movement_);
  SleepUntil(end);
}

void InjectedStage::Fill(const at::Tensor& message) {
  if (!values_.defined() || values_.sizes() != message.sizes()) {
    values_ = Normal(message.sizes(), 1.0, seed_ + 2);
  }
  constexpr uint64_t kPeriod = 1021;  // a prime: no number of micro-batches repeats its factors
  const double factor = 1 + static_cast<double>(messages_++ % kPeriod) / kPeriod;
  at::mul_out(const_cast<at::Tensor&>(message), values_, at::scalar_tensor(factor, at::kFloat));
}

void InjectedStage::SleepUntil(absl::Duration end) {
  const absl::Duration left = end - now_();
  if (left > absl::ZeroDuration()) compute_.sleep(left);
}

}  // namespace longhaul
