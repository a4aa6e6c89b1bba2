#include "pp_group/optimizer/muon.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

namespace longhaul {
namespace {

constexpr double kSteps[][3] = {{4.0848, -6.8946, 2.9270},
                                {3.9505, -6.3029, 2.6377},
                                {3.7418, -5.5913, 2.3037},
                                {2.8769, -3.1427, 1.2046},
                                {2.8366, -3.0525, 1.2012}};
constexpr double kTiny = 1e-7;  // added to the norm

bool IsOfBlock(const ParameterSlot& slot) {
  return slot.rows > 1 && slot.name.starts_with("block");
}

}  // namespace

at::Tensor Orthogonalized(const at::Tensor& x) {
  const bool tall = x.size(0) > x.size(1);
  at::Tensor y = tall ? x.t().contiguous() : x.clone();
  if (y.is_cpu()) {
    y.div_(y.norm().item<double>() + kTiny);
  } else {  // without waiting for it
    y.div_(y.norm().add_(kTiny));
  }
  for (const auto& [a, b, c] : kSteps) {
    const at::Tensor square = at::mm(y, y.t());
    const at::Tensor polynomial = at::addmm(square, square, square, b, c);
    y = at::addmm(y, polynomial, y, a, 1);
  }
  return tall ? y.t().contiguous() : y;
}

void Muon::BeginStep(int64_t step, double rate) {
  AdamW::BeginStep(step, rate);
  rate_ = rate;
}

void Muon::Update(const ParameterSlot& slot, float grad_scale, Stage* stage) {
  if (!IsOfBlock(slot)) {
    AdamW::Update(slot, grad_scale, stage);
    return;
  }
  const at::Tensor theta = PartOf(stage->parameters(), slot), m = PartOf(m_, slot);
  m.mul_(spec().beta1).add_(PartOf(stage->gradients(), slot), grad_scale);
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(slot.rows, slot.cols)));
  if (slot.decays) theta.mul_(1 - rate_ * spec().weight_decay);
  theta.add_(Orthogonalized(m.view({slot.rows, slot.cols})).flatten(), -rate_ * scale);
}

}  // namespace longhaul
