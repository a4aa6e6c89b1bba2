#include "pp_group/optimizer/sgd.h"

#include <ATen/ATen.h>

namespace longhaul {

void Sgd::Update(const ParameterSlot& slot, float grad_scale, Stage* stage) {
  const at::Tensor theta = PartOf(stage->parameters(), slot), m = PartOf(m_, slot);
  m.mul_(spec().beta1).add_(PartOf(stage->gradients(), slot), grad_scale);
  if (slot.decays) theta.mul_(1 - rate_ * spec().weight_decay);
  theta.add_(m, -rate_);
}

void PlainSgd::Update(const ParameterSlot& slot, float, Stage* stage) {
  const at::Tensor theta = PartOf(stage->parameters(), slot);
  if (slot.decays) theta.mul_(1 - rate_ * spec().weight_decay);
  theta.add_(PartOf(stage->gradients(), slot), -rate_);
}

void SignSgd::Update(const ParameterSlot& slot, float, Stage* stage) {
  const at::Tensor theta = PartOf(stage->parameters(), slot);
  if (slot.decays) theta.mul_(1 - rate_ * spec().weight_decay);
  theta.add_(PartOf(stage->gradients(), slot).sign(), -rate_);
}

}  // namespace longhaul
