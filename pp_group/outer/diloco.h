#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pp_group/outer/algorithm.h"
#include "pp_group/outer/fragments.h"

namespace longhaul {

// DiLoCo's outer step (Douillard et al. 2023) of one stage among its G peers:
//   outer_delta = theta_start - theta                               [N], after H inner steps
//   average     = GroupAverage of the members' outer deltas, without those that would poison it
//                 (poison.h)
//   momentum    = mu momentum + average
//   theta_start = theta_start - lr (average + mu momentum)          Nesterov
//   theta       = theta_start
// A member that was left out takes the outer step like the others, and forgets what its outer codec
// remembered.
//
// Of a fragment alone, and with inner steps between the delta and its average (Streaming DiLoCo,
// Douillard et al. 2025), the last line is
//   theta       = mix theta + (1 - mix) theta_start                 of the fragment, as it is by then
// so that what was learnt meanwhile is not lost unless mix is 0; after the run's last step it is 0.
class Diloco : public OuterAlgorithm {
 public:
  static absl::StatusOr<std::unique_ptr<Diloco>> Create(const OuterSpec& spec, OuterRank rank);

  absl::Status Encode(const OuterExchange& exchange) override;
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t fragment) override;
  absl::Status Average(int64_t fragment, const std::vector<bool>& left_out) override;
  absl::Status Apply(const OuterExchange& exchange) override;

  GroupAverage& exchange(int64_t fragment = 0) override { return *At(fragment).exchange; }
  int64_t fragments() const override { return static_cast<int64_t>(parts_.size()); }
  std::vector<bool> left_out(int64_t fragment) const override;
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t step) const override;
  // What the parameters are now is where the next inner steps start from.
  void Restart();
  at::Tensor theta_start() const override { return theta_start_; }
  std::vector<std::pair<std::string, at::Tensor>> state() const override {
    return {{"outer.momentum", momentum_}};
  }

 private:
  struct Part {
    Fragment fragment;
    std::unique_ptr<GroupAverage> exchange;
    at::Tensor delta;     // [n]; scratch between Encode and Average
    at::Tensor left_out;  // [G] f32, 1: by place in members()
  };
  explicit Diloco(const OuterPlan& plan) : plan_(plan) {}
  Part& At(int64_t fragment) { return parts_[static_cast<size_t>(fragment)]; }
  const Part& At(int64_t fragment) const { return parts_[static_cast<size_t>(fragment)]; }

  const OuterPlan plan_;
  float mu_ = 0;
  double lr_ = 0, mix_ = 0;
  // A group that meets nobody stays where it is, which start - (start - theta) is but for rounding.
  bool alone_ = false;
  at::Tensor theta_, theta_start_, momentum_;  // [N]
  std::vector<Part> parts_;                    // by fragment
};

}  // namespace longhaul
