#include "pp_group/optimizer/adamw.h"

#include <cmath>

#include <ATen/ATen.h>

#include "pp_group/kernels/kernels.h"

namespace longhaul {

void AdamW::BeginStep(int64_t step, double rate) {
  const double t = static_cast<double>(step + 1);
  step_size_ = rate / (1 - std::pow(spec().beta1, t));
  sqrt_correction2_ = std::sqrt(1 - std::pow(spec().beta2, t));
  decay_ = rate * spec().weight_decay;
  rate_ = rate;
  steps_done_ = step + 1;
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

void StepFused(const AdamWSpec& spec, int64_t step, double rate, const std::vector<float>& scales,
               Stage* stage, const at::Tensor& first, const at::Tensor& second,
               bool without_copies) {
  const at::Tensor& gradients = stage->gradients();
  const std::vector<ClipGroup>& groups = stage->layout().clip_groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (scales[g] == 1) continue;
    gradients.narrow(0, groups[g].begin, groups[g].end - groups[g].begin).mul_(scales[g]);
  }
  const at::Tensor count = at::full({}, static_cast<double>(step), gradients.options());
  for (const bool decays : {true, false}) {
    std::vector<at::Tensor> theta, g, m, v;
    for (const ParameterSlot& slot : stage->layout().slots) {
      if (slot.decays != decays || (without_copies && stage->layout().IsCopy(slot))) continue;
      const auto part = [&slot](const at::Tensor& flat) {
        return flat.narrow(0, slot.offset, slot.elements());
      };
      theta.push_back(part(stage->parameters()));
      g.push_back(part(gradients));
      m.push_back(part(first));
      v.push_back(part(second));
    }
    if (theta.empty()) continue;
    at::_fused_adamw_(theta, g, m, v, /*max_exp_avg_sqs=*/{},
                      std::vector<at::Tensor>(theta.size(), count), rate, spec.beta1, spec.beta2,
                      decays ? spec.weight_decay : 0, spec.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

void AdamW::UpdateAll(const std::vector<float>& scales, Stage* stage) {
  if (stage->parameters().is_cpu() || !AllAlike()) return InnerOptimizer::UpdateAll(scales, stage);
  StepFused(spec(), steps_done_, rate_, scales, stage, m_, v_, /*without_copies=*/shared());
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

}  // namespace longhaul
