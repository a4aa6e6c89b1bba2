#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pp_group/outer/diloco.h"

namespace longhaul {

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
                                                                OuterRank rank);

  absl::Status Encode(const OuterExchange& e) override;
  bool moves_when_begun() const override { return true; }
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t fragment) override {
    return shared_->SquaredNorms(fragment);
  }
  absl::Status Average(int64_t fragment, const std::vector<bool>& left_out) override {
    return shared_->Average(fragment, left_out);
  }
  absl::Status Apply(const OuterExchange& e) override;

  GroupAverage& exchange(int64_t = 0) override { return shared_->exchange(); }
  std::vector<bool> left_out(int64_t fragment) const override {
    return shared_->left_out(fragment);
  }
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t step) const override;

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

}  // namespace longhaul
