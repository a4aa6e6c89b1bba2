#include "pp_group/outer/eager.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace longhaul {

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Eager::Create(const OuterSpec& spec,
                                                              OuterRank rank) {
  std::unique_ptr<Eager> eager(new Eager(rank.plan));
  eager->lr_ = spec.lr;
  eager->mu_ = spec.momentum;
  eager->groups_ = rank.place.groups;
  eager->group_ = rank.place.group;
  eager->theta_ = rank.host_parameters;
  eager->behind_ = rank.host_parameters.clone();
  eager->ahead_ = at::zeros_like(eager->theta_);
  eager->momentum_ = at::zeros_like(eager->theta_);
  eager->last_ = at::zeros_like(eager->theta_);
  rank.host_parameters = eager->behind_;
  auto shared = Diloco::Create(spec, std::move(rank));
  if (!shared.ok()) return shared.status();
  eager->shared_ = *std::move(shared);
  return eager;
}

absl::Status Eager::Encode(const OuterExchange& e) {
  at::sub_out(behind_, theta_, ahead_);
  if (absl::Status s = shared_->Encode(e); !s.ok()) return s;
  const at::Tensor delta = shared_->theta_start() - behind_;
  const at::Tensor own = (delta - last_).div_(groups_);
  last_.copy_(delta);
  const double lr = lr_ * plan_.RateShare(e.begun);
  momentum_.mul_(mu_).add_(own);
  ahead_.sub_(own, lr).sub_(momentum_, lr * mu_);
  at::add_out(theta_, shared_->theta_start(), ahead_);
  return absl::OkStatus();
}

absl::Status Eager::Apply(const OuterExchange& e) {
  if (absl::Status s = shared_->Apply(e); !s.ok()) return s;
  const std::vector<int>& members = shared_->exchange().members();
  const auto place = std::find(members.begin(), members.end(), group_) - members.begin();
  if (e.begun == plan_.steps() || left_out(0)[static_cast<size_t>(place)]) {
    for (at::Tensor* own : {&ahead_, &momentum_, &last_}) own->zero_();
  }
  at::add_out(theta_, shared_->theta_start(), ahead_);
  return absl::OkStatus();
}

std::vector<std::pair<std::string, at::Tensor>> Eager::Tensors(int64_t step) const {
  std::vector<std::pair<std::string, at::Tensor>> tensors = shared_->Tensors(step);
  tensors.emplace_back("outer.ahead", ahead_);
  tensors.emplace_back("outer.ahead.momentum", momentum_);
  tensors.emplace_back("outer.last_delta", last_);
  return tensors;
}

}  // namespace longhaul
