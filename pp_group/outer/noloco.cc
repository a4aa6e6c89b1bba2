#include "pp_group/outer/noloco.h"

#include <ATen/ATen.h>

namespace longhaul {

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Noloco::Create(const OuterSpec& spec,
                                                               OuterRank rank) {
  std::unique_ptr<Noloco> noloco(new Noloco(rank.plan));
  noloco->lr_ = spec.lr;
  noloco->mu_ = spec.momentum;
  noloco->theta_ = rank.host_parameters;
  noloco->start_ = rank.host_parameters.clone();
  noloco->momentum_ = at::zeros_like(rank.host_parameters);
  noloco->scratch_ = at::empty_like(rank.host_parameters);
  rank.place.parts = FrameParts(rank.stage->layout());
  auto exchange =
      GroupAverage::Create(spec.codec, std::move(rank.place), rank.host_parameters.numel());
  if (!exchange.ok()) return exchange.status();
  noloco->exchange_ = *std::move(exchange);
  return noloco;
}

absl::Status Noloco::Encode(const OuterExchange& e) { return exchange_->Encode(e.begun, theta_); }

absl::StatusOr<std::vector<double>> Noloco::SquaredNorms(int64_t) {
  if (absl::Status status = exchange_->Receive(); !status.ok()) return status;
  return exchange_->SquaredNorms(scratch_);
}

absl::Status Noloco::Average(int64_t, const std::vector<bool>& left_out) {
  left_out_ = left_out;
  return exchange_->Average(scratch_, left_out).status();
}

absl::Status Noloco::Apply(const OuterExchange& e) {
  const at::Tensor& mean = exchange_->average();
  if (e.begun == plan_.steps()) {
    start_.copy_(mean);
  } else {
    momentum_.mul_(mu_).add_(mean - start_, lr_ * plan_.RateShare(e.applied));
    start_.add_(momentum_);
  }
  theta_.copy_(start_);
  return absl::OkStatus();
}

std::vector<std::pair<std::string, at::Tensor>> Noloco::Tensors(int64_t) const {
  return {{"outer.theta_start", start_}, {"outer.momentum", momentum_}};
}

}  // namespace longhaul
