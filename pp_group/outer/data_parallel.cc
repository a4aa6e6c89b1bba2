#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "pp_group/optimizer/adamw.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

std::vector<FlatRange> Between(const std::vector<FlatRange>& ranges, int64_t elements) {
  std::vector<FlatRange> gaps;
  int64_t at = 0;
  for (const FlatRange& range : ranges) {
    if (at < range.begin) gaps.push_back({at, range.begin});
    at = range.end;
  }
  if (at < elements) gaps.push_back({at, elements});
  return gaps;
}

at::Tensor Part(const at::Tensor& flat, const FlatRange& range) {
  return flat.narrow(0, range.begin, range.end - range.begin);
}

// Synchronous data parallel training of one stage among its G peers: its gradients become the mean
// over the groups, before the inner update, of what the algorithm's rule sends of them
// (OuterRule::sends). Of the first moment (1-bit Adam, Tang et al. 2021) that is, after the warm-up,
//   beta1 m + (1 - beta1) gradient,   each clip group of the gradient at most clip_norm long,
// m the moment that groups have agreed on in the step before. Groups send each other what they have in
// one message, without the paper's second compression of the mean.
//
// Of parameters that are spread over the groups (experts, stage_layout.h) a rank's gradient is the
// sum over the rows of all groups already: it is divided by G where it lies, and does not cross.
// Then the clip groups' squared norms are of all ranks together, each expert counted once; sums are
// taken in the order of groups, so that all groups clip what they hold alike by equal factors.
// The parts are apart as GroupAverage's are. Throw what c10d does.
class DataParallel : public OuterAlgorithm {
 public:
  static absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Create(const OuterSpec& spec,
                                                                OuterRank rank) {
    const StageLayout& layout = rank.stage->layout();
    std::unique_ptr<DataParallel> average(new DataParallel(*FindOuterRule(spec.algorithm)));
    average->inner_ = rank.inner;
    average->steps_ = rank.plan.steps();
    average->warmup_ = spec.warmup();
    average->first_moment_ = rank.first_moment;
    average->groups_ = rank.place.groups;
    average->experts_ = std::move(rank.experts);
    average->shared_ = SharedRanges(layout);
    average->spread_ = Between(average->shared_, layout.flat_elements);
    const int64_t elements = SharedElements(layout);
    rank.place.parts = FrameParts(layout);
    rank.place.earlier = CodecsOf(spec);
    rank.place.earlier.pop_back();
    if (!average->spread_.empty()) average->parts_ = at::empty({elements}, at::kFloat);
    ASSIGN_OR_RETURN(auto exchange,
                     GroupAverage::Create(spec.codec, std::move(rank.place), elements));
    average->exchange_ = std::move(exchange);
    return average;
  }

  absl::Status BeginGradients(int64_t step, const Stage& stage) override {
    if (spread_.empty()) return exchange_->Begin(step, ToSend(step, stage));
    int64_t at = 0;
    for (const FlatRange& range : shared_) {
      const at::Tensor part = Part(stage.gradients(), range);
      parts_.narrow(0, at, part.numel()).copy_(part);
      at += part.numel();
    }
    return exchange_->Begin(step, parts_);
  }
  absl::Status FinishGradients(Stage* stage) override {
    const at::Tensor& gradients = stage->gradients();
    if (spread_.empty()) {
      const absl::StatusOr<at::Tensor> average = exchange_->Finish(
          gradients.is_cpu() ? gradients : at::empty(gradients.sizes(), at::kFloat));
      if (average.ok()) gradients.copy_(*average);
      return average.status();
    }
    ASSIGN_OR_RETURN(const at::Tensor average, exchange_->Finish(parts_));
    int64_t at = 0;
    for (const FlatRange& range : shared_) {
      const at::Tensor part = Part(gradients, range);
      part.copy_(average.narrow(0, at, part.numel()));
      at += part.numel();
    }
    for (const FlatRange& range : spread_) Part(gradients, range).div_(groups_);
    return absl::OkStatus();
  }

  // Of each clip group the squares of what is spread, of all ranks together, for AdamW::Step.
  void BeginSquares(const Stage& stage) override {
    own_squares_ = {at::tensor(at::ArrayRef<double>(ClipSquaresOf(stage).spread), at::kDouble)};
    all_squares_.assign(1, {});
    for (int g = 0; g < experts_->getSize(); ++g) {
      all_squares_[0].push_back(at::empty_like(own_squares_[0]));
    }
    gathering_ = experts_->allgather(all_squares_, own_squares_);
  }
  std::vector<double> FinishSquares() override {
    WaitAndReset(&gathering_);
    std::vector<double> sums(static_cast<size_t>(own_squares_[0].numel()), 0);
    for (const at::Tensor& squares : all_squares_[0]) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += squares.const_data_ptr<double>()[i];
    }
    return sums;
  }

  int clipped_groups() const override { return clipped_; }
  GroupAverage& exchange(int64_t = 0) override { return *exchange_; }

 private:
  explicit DataParallel(const OuterRule& rule) : sends_(rule.sends) {}
  at::Tensor ToSend(int64_t step, const Stage& stage) {
    clipped_ = 0;
    if (sends_ == OuterRule::Sends::kClipped) {
      return Clipped(inner_.clip_norm / std::sqrt(groups_), stage);
    }
    if (sends_ == OuterRule::Sends::kTimesRate) {
      return stage.gradients().cpu() * LearningRate(inner_, step - 1, steps_);
    }
    if (sends_ == OuterRule::Sends::kMoment && step > warmup_ && first_moment_.defined()) {
      return Clipped(inner_.clip_norm, stage)
          .mul_(1 - inner_.beta1)
          .add_(first_moment_.cpu(), inner_.beta1);
    }
    return stage.gradients().cpu();
  }
  at::Tensor Clipped(double longest, const Stage& stage) {
    const at::Tensor gradient = stage.gradients().to(at::kCPU, at::kFloat, false, /*copy=*/true);
    const std::vector<float> scales = ClipScales(longest, GradientNorms(stage));
    for (size_t i = 0; i < scales.size(); ++i) {
      if (scales[i] == 1) continue;
      const ClipGroup& group = stage.layout().clip_groups[i];
      gradient.narrow(0, group.begin, group.end - group.begin).mul_(scales[i]);
      ++clipped_;
    }
    return gradient;
  }

  const OuterRule::Sends sends_;
  AdamWSpec inner_ = {.lr = 0};
  int64_t steps_ = 0, warmup_ = 0;
  at::Tensor first_moment_;
  int clipped_ = 0;

  double groups_ = 1;
  std::vector<FlatRange> shared_, spread_;  // of the flat gradient
  at::Tensor parts_;                        // [K] f32: the shared ranges, one behind the other
  c10::intrusive_ptr<c10d::Backend> experts_;
  std::unique_ptr<GroupAverage> exchange_;
  std::vector<at::Tensor> own_squares_;               // [C] f64
  std::vector<std::vector<at::Tensor>> all_squares_;  // of each group
  WorkPtr gathering_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewDataParallel(const OuterSpec& spec,
                                                                OuterRank rank) {
  return DataParallel::Create(spec, std::move(rank));
}

}  // namespace longhaul
