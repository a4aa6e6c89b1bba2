#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pp_group/outer/algorithm.h"

namespace longhaul {

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
                                                                OuterRank rank);

  absl::Status Encode(const OuterExchange& e) override;
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t fragment) override;
  absl::Status Average(int64_t fragment, const std::vector<bool>& left_out) override;
  absl::Status Apply(const OuterExchange& e) override;

  GroupAverage& exchange(int64_t = 0) override { return *exchange_; }
  std::vector<bool> left_out(int64_t) const override { return left_out_; }
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t step) const override;

 private:
  explicit Noloco(const OuterPlan& plan) : plan_(plan) {}

  const OuterPlan plan_;
  double lr_ = 0, mu_ = 0;
  at::Tensor theta_, start_, momentum_, scratch_;  // [N]
  std::vector<bool> left_out_;
  std::unique_ptr<GroupAverage> exchange_;
};

}  // namespace longhaul
