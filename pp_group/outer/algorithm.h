#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pp_group/optimizer/inner_optimizer.h"
#include "pp_group/outer/group_average.h"
#include "pp_group/outer/outer_hooks.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/stage.h"

namespace longhaul {

// What makes G groups one training, of one stage on one rank: hooks that OuterRound (outer_round.h)
// calls at the moments that the plan says. An algorithm has those that it needs. They come in parts
// so that one thread can drive several ranks: all begin, then all finish. Throw what c10d does.
class OuterAlgorithm {
 public:
  virtual ~OuterAlgorithm() = default;

  // Of plans that exchange gradients, in inner step `step` (1-based) before the inner update.
  virtual absl::Status BeginGradients(int64_t step, const Stage& stage);
  virtual absl::Status FinishGradients(Stage* stage);
  // Clip groups whose gradients were scaled down before they crossed.
  virtual int clipped_groups() const { return 0; }
  // After it, where parameters are spread (data_parallel.cc); for the optimizer.
  virtual void BeginSquares(const Stage&) {}
  virtual std::vector<double> FinishSquares() { return {}; }

  // Of plans with exchanges, in this order, on the host's parameters. First what the group has is
  // taken and encoded; exchange(fragment).Send() follows.
  virtual absl::Status Encode(const OuterExchange& exchange);
  // Whether that moves the parameters already.
  virtual bool moves_when_begun() const { return false; }
  // Waits for all members: their values squared, by place in exchange(fragment).members().
  virtual absl::StatusOr<std::vector<double>> SquaredNorms(int64_t fragment);
  // Keeps the average for Apply. `left_out`: PoisonedMembers of the norms over all stages, by the
  // same place.
  virtual absl::Status Average(int64_t fragment, const std::vector<bool>& left_out);
  virtual absl::Status Apply(const OuterExchange& exchange);

  virtual GroupAverage& exchange(int64_t fragment = 0) = 0;
  virtual int64_t fragments() const { return 1; }
  // Who was left out of the average that Apply takes, by place in members().
  virtual std::vector<bool> left_out(int64_t) const { return {}; }

  // For checkpoints after `step`, by the name of their section; what was in flight has been averaged.
  virtual std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t step) const;
  // What a group that joins after a round takes over, [N] f32 each; undefined: there is none.
  virtual at::Tensor theta_start() const { return {}; }
  // The rest of it, by the name of its section.
  virtual std::vector<std::pair<std::string, at::Tensor>> state() const { return {}; }
};

// What an algorithm is made from. `host_parameters`: [flat_elements] f32 on the host, shared with
// the stage where that computes there.
struct OuterRank {
  OuterPlan plan;
  GroupAverage::Place place;  // without parts
  const Stage* stage;
  at::Tensor host_parameters;
  c10::intrusive_ptr<c10d::Backend> experts;  // over which parameters are spread; null: none are
  AdamWSpec inner = {.lr = 0};
  at::Tensor first_moment = {};  // of the inner optimizer; undefined: it has none
  NewOuterHooks hooks = {};      // of an algorithm in Python
};

// nullptr: the groups never meet. NotFound: the algorithm. Else errors of GroupAverage::Create.
absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewOuterAlgorithm(const OuterSpec& spec,
                                                                  OuterRank rank);

}  // namespace longhaul
