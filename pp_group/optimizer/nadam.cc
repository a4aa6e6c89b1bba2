#include "pp_group/optimizer/nadam.h"

#include <cmath>

#include <ATen/ATen.h>

namespace longhaul {

double NAdam::Momentum(int64_t t) const {
  constexpr double kMomentumDecay = 0.004;
  return spec().beta1 * (1 - 0.5 * std::pow(0.96, kMomentumDecay * static_cast<double>(t)));
}

void NAdam::BeginStep(int64_t step, double rate) {
  AdamW::BeginStep(step, rate);
  const int64_t t = step + 1;
  if (multiplied_ >= t) multiplied_ = 0, product_ = 1;
  while (multiplied_ < t) product_ *= Momentum(++multiplied_);  // from a checkpoint on all at once
  const double next = Momentum(t + 1);
  of_gradient_ = rate * (1 - Momentum(t)) / (1 - product_);
  of_moment_ = rate * next / (1 - product_ * next);
}

void NAdam::Update(const ParameterSlot& slot, float grad_scale, Stage* stage) {
  const auto part = [&slot](const at::Tensor& flat) {
    return PartOf(flat, slot).view({slot.rows, slot.cols});
  };
  const at::Tensor theta = part(stage->parameters()), m = part(m_), v = part(v_);
  const at::Tensor g = part(stage->gradients()) * grad_scale;
  at::Tensor square = g.square();
  if (spec().joint_stream_moments && slot.stream != StreamVectors::kNone) {
    square = square.mean(slot.stream == StreamVectors::kRows ? 1 : 0, /*keepdim=*/true);
  }
  m.mul_(spec().beta1).add_(g, 1 - spec().beta1);
  v.mul_(spec().beta2).add_(square, 1 - spec().beta2);
  if (slot.decays) theta.mul_(1 - decay_);
  const at::Tensor divisor = v.sqrt().div_(sqrt_correction2_).add_(spec().eps);
  theta.addcdiv_(g, divisor, -of_gradient_).addcdiv_(m, divisor, -of_moment_);
}

}  // namespace longhaul
