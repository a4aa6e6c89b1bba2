#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {

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
                                                                OuterRank rank);

  absl::Status BeginGradients(int64_t step, const Stage& stage) override;
  absl::Status FinishGradients(Stage* stage) override;

  // Of each clip group the squares of what is spread, of all ranks together, for AdamW::Step.
  void BeginSquares(const Stage& stage) override;
  std::vector<double> FinishSquares() override;

  int clipped_groups() const override { return clipped_; }
  GroupAverage& exchange(int64_t = 0) override { return *exchange_; }

 private:
  explicit DataParallel(const OuterRule& rule) : sends_(rule.sends) {}
  at::Tensor ToSend(int64_t step, const Stage& stage);
  at::Tensor Clipped(double longest, const Stage& stage);

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

}  // namespace longhaul
