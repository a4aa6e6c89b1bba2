#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/status_macros.h"
#include "pp_group/outer/diloco.h"

namespace longhaul {
namespace {

// Eager updates (Kale et al. 2025): the average of a round comes a round later, but a group does not
// wait for its own share of it. Of group m of M, with its outer deltas D_m(t) of round t:
//   D~(t) = average(t - 1) + (D_m(t) - D_m(t - 1)) / M,      average(0) = D_m(0) = 0
// is what its Nesterov step takes. That step is linear, so it is taken in two parts: one over the
// averages, which all groups have alike (Diloco), and one over what is the group's own,
//   momentum = mu momentum + own,   ahead = ahead - lr (own + mu momentum),   theta = start + ahead
// After the run's last step its average is here, nothing is ahead, and groups end equal. A group that
// was left out of an average drops what it is ahead by.
class Eager : public OuterAlgorithm {
 public:
  static absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Create(const OuterSpec& spec,
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
    ASSIGN_OR_RETURN(auto shared, Diloco::Create(spec, std::move(rank)));
    eager->shared_ = std::move(shared);
    return eager;
  }

  absl::Status Encode(const OuterExchange& e) override {
    at::sub_out(behind_, theta_, ahead_);
    RETURN_IF_ERROR(shared_->Encode(e));
    const at::Tensor delta = shared_->theta_start() - behind_;
    const at::Tensor own = (delta - last_).div_(groups_);
    last_.copy_(delta);
    const double lr = lr_ * plan_.RateShare(e.begun);
    momentum_.mul_(mu_).add_(own);
    ahead_.sub_(own, lr).sub_(momentum_, lr * mu_);
    at::add_out(theta_, shared_->theta_start(), ahead_);
    return absl::OkStatus();
  }
  bool moves_when_begun() const override { return true; }
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t fragment) override {
    return shared_->SquaredNorms(fragment);
  }
  absl::Status Average(int64_t fragment, const std::vector<bool>& left_out) override {
    return shared_->Average(fragment, left_out);
  }
  absl::Status Apply(const OuterExchange& e) override {
    RETURN_IF_ERROR(shared_->Apply(e));
    const std::vector<int>& members = shared_->exchange().members();
    const auto place = std::find(members.begin(), members.end(), group_) - members.begin();
    if (e.begun == plan_.steps() || left_out(0)[static_cast<size_t>(place)]) {
      for (at::Tensor* own : {&ahead_, &momentum_, &last_}) own->zero_();
    }
    at::add_out(theta_, shared_->theta_start(), ahead_);
    return absl::OkStatus();
  }

  GroupAverage& exchange(int64_t = 0) override { return shared_->exchange(); }
  std::vector<bool> left_out(int64_t fragment) const override {
    return shared_->left_out(fragment);
  }
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t step) const override {
    std::vector<std::pair<std::string, at::Tensor>> tensors = shared_->Tensors(step);
    tensors.emplace_back("outer.ahead", ahead_);
    tensors.emplace_back("outer.ahead.momentum", momentum_);
    tensors.emplace_back("outer.last_delta", last_);
    return tensors;
  }

 private:
  explicit Eager(const OuterPlan& plan) : plan_(plan) {}

  const OuterPlan plan_;
  double lr_ = 0, mu_ = 0, groups_ = 1;
  int group_ = 0;
  at::Tensor theta_;                    // [N], of the stage
  at::Tensor behind_;                   // [N]: theta without what it is ahead by, for `shared_`
  at::Tensor ahead_, momentum_, last_;  // [N]; last: D_m of the round before
  std::unique_ptr<Diloco> shared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewEager(const OuterSpec& spec, OuterRank rank) {
  return Eager::Create(spec, std::move(rank));
}

}  // namespace longhaul
