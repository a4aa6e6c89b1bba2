#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/outer/algorithm.h"

namespace longhaul {
namespace {

// An outer step whose rule is a user's: what OuterHooks::Send makes of the parameters after H inner
// steps crosses, and OuterHooks::Apply takes the mean of the groups.
class Hooked : public OuterAlgorithm {
 public:
  static absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Create(const OuterSpec& spec,
                                                                OuterRank rank) {
    if (!rank.hooks) {
      return absl::FailedPreconditionError(
          absl::StrCat("outer algorithm '", spec.algorithm, "': this program starts no Python"));
    }
    std::unique_ptr<Hooked> hooked(new Hooked(rank.plan));
    const StageLayout& layout = rank.stage->layout();
    ASSIGN_OR_RETURN(auto hooks, rank.hooks(spec,
                                            {.group = rank.place.group,
                                             .groups = rank.place.groups,
                                             .stage = rank.place.stage,
                                             .stages = layout.stages,
                                             .steps = rank.plan.steps(),
                                             .seed = rank.place.seed},
                                            rank.host_parameters));
    hooked->hooks_ = std::move(hooks);
    hooked->lr_ = spec.lr;
    hooked->theta_ = rank.host_parameters;
    rank.place.parts = FrameParts(layout);
    rank.place.over_senders = spec.mean == "senders";
    ASSIGN_OR_RETURN(auto exchange, GroupAverage::Create(spec.codec, std::move(rank.place),
                                                         rank.host_parameters.numel()));
    hooked->exchange_ = std::move(exchange);
    return hooked;
  }

  absl::Status Encode(const OuterExchange& e) override {
    buffers().parameters.copy_(theta_);
    RETURN_IF_ERROR(hooks_->Send(e.begun));
    return exchange_->Encode(e.begun, buffers().crossing);
  }
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t) override {
    RETURN_IF_ERROR(exchange_->Receive());
    return exchange_->SquaredNorms(buffers().crossing);
  }
  absl::Status Average(int64_t, const std::vector<bool>& left_out) override {
    left_out_ = left_out;
    return exchange_->Average(buffers().crossing, left_out).status();
  }
  absl::Status Apply(const OuterExchange& e) override {
    buffers().crossing.copy_(exchange_->average());
    buffers().parameters.copy_(theta_);
    RETURN_IF_ERROR(hooks_->Apply(e.applied, lr_ * plan_.RateShare(e.applied)));
    theta_.copy_(buffers().parameters);
    buffers().start.copy_(theta_);
    return absl::OkStatus();
  }

  GroupAverage& exchange(int64_t = 0) override { return *exchange_; }
  std::vector<bool> left_out(int64_t) const override { return left_out_; }
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t) const override {
    std::vector<std::pair<std::string, at::Tensor>> tensors = state();
    tensors.emplace(tensors.begin(), "outer.theta_start", theta_start());
    return tensors;
  }
  at::Tensor theta_start() const override { return buffers().start; }
  std::vector<std::pair<std::string, at::Tensor>> state() const override {
    std::vector<std::pair<std::string, at::Tensor>> named;
    for (const auto& [name, tensor] : hooks_->state()) {
      named.emplace_back("outer." + name, tensor);
    }
    return named;
  }

 private:
  explicit Hooked(const OuterPlan& plan) : plan_(plan) {}
  const OuterHooks::Buffers& buffers() const { return hooks_->buffers(); }

  const OuterPlan plan_;
  double lr_ = 0;
  at::Tensor theta_;  // [N]
  std::unique_ptr<OuterHooks> hooks_;
  std::vector<bool> left_out_;
  std::unique_ptr<GroupAverage> exchange_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewHooked(const OuterSpec& spec, OuterRank rank) {
  return Hooked::Create(spec, std::move(rank));
}

}  // namespace longhaul
