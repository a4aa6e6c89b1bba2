#include "pp_group/optimizer/adamw.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <ATen/ATen.h>

#include "pp_group/kernels/kernels.h"

namespace longhaul {

void AdamW::BeginStep(int64_t step, double rate) {
  const double t = static_cast<double>(step + 1);
  step_size_ = rate / (1 - std::pow(spec().beta1, t));
  sqrt_correction2_ = std::sqrt(1 - std::pow(spec().beta2, t));
  decay_ = rate * spec().weight_decay;
}

// The kernel's formula in ATen calls, for parameters that are on a device.
void StepByAten(const AdamWStep& s, const at::Tensor& gradient, const at::Tensor& parameter,
                const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor g = gradient * s.grad_scale;
  first.mul_(s.beta1).add_(g, 1 - s.beta1);
  second.mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
  parameter.mul_(1 - s.decay);
  parameter.addcdiv_(first, second.sqrt().div_(s.sqrt_correction2).add_(s.eps), -s.step_size);
}

void AdamW::Update(const ParameterSlot& slot, float grad_scale, Stage* stage) {
  const at::Tensor &parameters = stage->parameters(), &gradients = stage->gradients();
  const AdamWStep update{.grad_scale = grad_scale,
                         .beta1 = static_cast<float>(spec().beta1),
                         .beta2 = static_cast<float>(spec().beta2),
                         .eps = static_cast<float>(spec().eps),
                         .step_size = static_cast<float>(step_size_),
                         .sqrt_correction2 = static_cast<float>(sqrt_correction2_),
                         .decay = slot.decays ? static_cast<float>(decay_) : 0.0f};
  if (spec().joint_stream_moments && slot.stream != StreamVectors::kNone) {
    const auto part = [&slot](const at::Tensor& flat) {
      return PartOf(flat, slot).view({slot.rows, slot.cols});
    };
    const at::Tensor g = part(gradients) * grad_scale;
    const at::Tensor square =
        g.square().mean(slot.stream == StreamVectors::kRows ? 1 : 0, /*keepdim=*/true);
    part(m_).mul_(spec().beta1).add_(g, 1 - spec().beta1);
    part(v_).mul_(spec().beta2).add_(square, 1 - spec().beta2);
    part(parameters)
        .mul_(1 - decay_)
        .addcdiv_(part(m_), part(v_).sqrt().div_(sqrt_correction2_).add_(spec().eps), -step_size_);
    return;
  }
  if (!parameters.is_cpu()) {
    StepByAten(update, PartOf(gradients, slot), PartOf(parameters, slot), PartOf(m_, slot),
               PartOf(v_, slot));
    return;
  }
  BestKernels().adamw(update, gradients.data_ptr<float>() + slot.offset, slot.elements(),
                      parameters.data_ptr<float>() + slot.offset,
                      m_.data_ptr<float>() + slot.offset, v_.data_ptr<float>() + slot.offset);
}

void OneBitAdam::BeginStep(int64_t step, double rate) {
  AdamW::BeginStep(step, rate);
  settled_ = step >= spec().settled;
  if (!settled_) return;
  sqrt_correction2_ = std::sqrt(1 - std::pow(spec().beta2, static_cast<double>(spec().settled)));
}

void OneBitAdam::Update(const ParameterSlot& slot, float grad_scale, Stage* stage) {
  if (!settled_) return AdamW::Update(slot, grad_scale, stage);
  const at::Tensor theta = PartOf(stage->parameters(), slot), m = PartOf(m_, slot);
  m.copy_(PartOf(stage->gradients(), slot));
  if (slot.decays) theta.mul_(1 - decay_);
  theta.addcdiv_(m, PartOf(v_, slot).sqrt().div_(sqrt_correction2_).add_(spec().eps), -step_size_);
}

uint64_t HashOf(const at::Tensor& x) {
  constexpr uint64_t kPrime = 0x9E3779B185EBCA87u;
  const at::Tensor host = x.is_cpu() ? x : x.cpu();
  const auto* bytes = static_cast<const unsigned char*>(host.const_data_ptr());
  const size_t size = x.nbytes();
  std::array<uint64_t, 4> lanes{1, 2, 3, 4};
  size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes + at, sizeof words);
    for (int i = 0; i < 4; ++i) lanes[i] = std::rotl(lanes[i] ^ words[i], 29) * kPrime;
  }
  uint64_t tail = size;
  for (; at < size; ++at) tail = (tail ^ bytes[at]) * kPrime;
  for (uint64_t lane : lanes) {
    tail = (tail ^ lane) * kPrime;
    tail ^= tail >> 32;
  }
  return tail;
}

}  // namespace longhaul
