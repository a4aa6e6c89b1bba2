#include "pp_group/outer_sync.h"

#include <utility>

#include <ATen/ATen.h>

#include "pp_group/kernels/kernels.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<OuterSync>> OuterSync::Create(const OuterSpec& spec,
                                                             GroupAverage::Place place,
                                                             at::Tensor theta) {
  auto exchange = GroupAverage::Create(spec.codec, std::move(place), theta.numel());
  if (!exchange.ok()) return exchange.status();
  std::unique_ptr<OuterSync> sync(new OuterSync);
  sync->lr_ = spec.lr;
  sync->mu_ = spec.momentum;
  sync->theta_start_ = theta.clone();
  sync->momentum_ = at::zeros_like(theta);
  sync->delta_ = at::empty_like(theta);
  sync->theta_ = std::move(theta);
  sync->exchange_ = *std::move(exchange);
  return sync;
}

absl::Status OuterSync::Encode(int64_t step) {
  at::sub_out(delta_, theta_start_, theta_);
  return exchange_->Encode(step, delta_);
}

absl::StatusOr<std::vector<double>> OuterSync::SquaredNorms() {
  if (absl::Status status = exchange_->Receive(); !status.ok()) return status;
  return exchange_->SquaredNorms(delta_);
}

absl::Status OuterSync::Finish(const std::vector<bool>& left_out) {
  const absl::StatusOr<at::Tensor> average = exchange_->Average(delta_, left_out);
  if (!average.ok()) return average.status();
  BestKernels().nesterov(average->data_ptr<float>(), static_cast<size_t>(average->numel()),
                         static_cast<float>(lr_), static_cast<float>(mu_),
                         momentum_.data_ptr<float>(), theta_start_.data_ptr<float>(),
                         theta_.data_ptr<float>());
  return absl::OkStatus();
}

}  // namespace longhaul
