#include "pp_group/optimizer/sgd.h"

#include <ATen/ATen.h>

namespace longhaul {

void Sgd::Move(const ParameterSlot& slot, const at::Tensor& direction, Stage* stage) const {
  const at::Tensor theta = PartOf(stage->parameters(), slot);
  if (slot.decays) theta.mul_(1 - rate_ * spec().weight_decay);
  theta.add_(direction, -rate_);
}

void Sgd::Update(const ParameterSlot& slot, float grad_scale, Stage* stage) {
  const at::Tensor m = PartOf(m_, slot);
  m.mul_(spec().beta1).add_(PartOf(stage->gradients(), slot), grad_scale);
  Move(slot, m, stage);
}

void PlainSgd::Update(const ParameterSlot& slot, float, Stage* stage) {
  Move(slot, PartOf(stage->gradients(), slot), stage);
}

void SignSgd::Update(const ParameterSlot& slot, float, Stage* stage) {
  Move(slot, PartOf(stage->gradients(), slot).sign(), stage);
}

}  // namespace longhaul
