#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/status_macros.h"
#include "pp_group/outer/algorithm.h"

namespace longhaul {
namespace {

// NoLoCo (Kolehmainen et al. 2025): no group ever waits for all. After H inner steps two groups that
// are drawn meet and exchange their parameters p:
//   momentum = mu momentum + lr (mean(p) - start)        [N], mean over the two
//   start    = start + momentum,   p = start
// which is the paper's rule with equal rates for what the pair moved, mean(p - start), and for what
// it differed by before, mean(start) - start: their sum is mean(p) - start, so that one tensor
// crosses. A group that is drawn alone means itself. After the run's last step all groups meet and
// take the mean of their parameters, so that they end equal.
class Noloco : public OuterAlgorithm {
 public:
  static absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Create(const OuterSpec& spec,
                                                                OuterRank rank) {
    std::unique_ptr<Noloco> noloco(new Noloco(rank.plan));
    noloco->lr_ = spec.lr;
    noloco->mu_ = spec.momentum;
    noloco->theta_ = rank.host_parameters;
    noloco->start_ = rank.host_parameters.clone();
    noloco->momentum_ = at::zeros_like(rank.host_parameters);
    noloco->scratch_ = at::empty_like(rank.host_parameters);
    rank.place.parts = FrameParts(rank.stage->layout());
    ASSIGN_OR_RETURN(auto exchange, GroupAverage::Create(spec.codec, std::move(rank.place),
                                                         rank.host_parameters.numel()));
    noloco->exchange_ = std::move(exchange);
    return noloco;
  }

  absl::Status Encode(const OuterExchange& e) override {
    return exchange_->Encode(e.begun, theta_);
  }
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t) override {
    RETURN_IF_ERROR(exchange_->Receive());
    return exchange_->SquaredNorms(scratch_);
  }
  absl::Status Average(int64_t, const std::vector<bool>& left_out) override {
    left_out_ = left_out;
    return exchange_->Average(scratch_, left_out).status();
  }
  absl::Status Apply(const OuterExchange& e) override {
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

  GroupAverage& exchange(int64_t = 0) override { return *exchange_; }
  std::vector<bool> left_out(int64_t) const override { return left_out_; }
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t) const override {
    return {{"outer.theta_start", start_}, {"outer.momentum", momentum_}};
  }

 private:
  explicit Noloco(const OuterPlan& plan) : plan_(plan) {}

  const OuterPlan plan_;
  double lr_ = 0, mu_ = 0;
  at::Tensor theta_, start_, momentum_, scratch_;  // [N]
  std::vector<bool> left_out_;
  std::unique_ptr<GroupAverage> exchange_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewNoloco(const OuterSpec& spec, OuterRank rank) {
  return Noloco::Create(spec, std::move(rank));
}

}  // namespace longhaul
