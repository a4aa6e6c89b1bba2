#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/group_average.h"
#include "pp_group/stage.h"

namespace longhaul {

// Synchronous data parallel training of one stage among its G peers: its gradients become the mean
// over the groups, before AdamW.
//
// Of parameters that are spread over the groups (experts, stage_layout.h) a rank's gradient is the
// sum over the rows of all groups already: it is divided by G where it lies, and does not cross.
// Then the clip groups' squared norms are of all ranks together, each expert counted once; sums are
// taken in the order of groups, so that all groups clip what they hold alike by equal factors.
// The parts are apart as GroupAverage's are. Throw what c10d does.
class GradientAverage {
 public:
  // Errors: GroupAverage::Create's. `experts`: over which parameters of the stage are spread; null
  // where none are.
  static absl::StatusOr<std::unique_ptr<GradientAverage>> Create(
      const std::string& codec, GroupAverage::Place place, const Stage& stage,
      c10::intrusive_ptr<c10d::Backend> experts);

  // `step` (1-based inner step) keys the codec's noise.
  absl::Status Begin(int64_t step, const Stage& stage);
  absl::Status Finish(Stage* stage);

  // After Finish, where parameters are spread: of each clip group the squares of what is spread, of
  // all ranks together, for AdamW::Step.
  void BeginSquares(const Stage& stage);
  std::vector<double> FinishSquares();

  GroupAverage& exchange() { return *exchange_; }

 private:
  GradientAverage() = default;

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
