#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pp_group/executor.h"
#include "pp_group/optimizer/inner_optimizer.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/past_weights.h"
#include "pp_group/subspace.h"
#include "pp_group/tied_head.h"
#include "pp_group/trainer.h"

namespace longhaul {

// One stage of a local rank with all that goes with it: optimizers, outer state, codecs' memory. A
// rank that holds several has one of these for each.
struct RankState {
  LocalRank rank;
  std::unique_ptr<Stage> stage;
  std::shared_ptr<PipelineRank> pipeline;  // one for all stages of the rank
  at::Tensor host_parameters;  // the stage's own where they are on the host; for the outer step
  std::unique_ptr<PastWeights> past;          // nullptr: the pipeline is flushed behind each step
  std::unique_ptr<InnerOptimizer> optimizer;  // nullptr: the stage updates itself
  std::unique_ptr<OuterAlgorithm> outer;      // nullptr: each group steps on its own
  std::unique_ptr<TiedHead> tied;             // nullptr: the stage has no part in a tied head
  std::vector<double> spread_squares;         // of the current step, for its gradient's norms
  std::vector<double> gradient_norms;         // of the current step, by clip group
  std::vector<int64_t>
      rows;  // of the current step, [B, T + 1]; first and last stage, with a subspace all
  StepReport report;
  double poison = 1;  // parameters are multiplied by it before the next outer delta
};

// Where a stage's parameters and moments lie, [flat_elements] f32 on its device each.
struct StageFlats {
  at::Tensor parameters, first_moment, second_moment;
};
// Those of the first and of the last stage of a group, in one piece of memory for each: the tied matrix, with which
// the last one's end and the first one's begin, is there once.
std::pair<StageFlats, StageFlats> FlatsOfTiedStages(const TrainSpec& spec);

// Without its pipeline. `subspace`: that of the spec, borrowed for the call; null: it has none. `sums`:
// of the stage's groups in this process. `flats`: of FlatsOfTiedStages; null: memory of its own.
absl::StatusOr<std::unique_ptr<RankState>> NewRankState(const TrainSpec& spec,
                                                        const LocalRank& rank,
                                                        const std::function<absl::Duration()>* now,
                                                        const Subspace* subspace = nullptr,
                                                        std::shared_ptr<SharedSums> sums = nullptr,
                                                        const StageFlats* flats = nullptr);

// Gives the stages of each rank, all of which are there, by group and then ascending, their
// pipeline, and both ends of a group's tied head, where both are there, each other. Pipelines borrow `now` and
// `subspace`.
void JoinStages(const TrainSpec& spec, const PipelineProgram& program,
                const std::function<absl::Duration()>* now, const Subspace* subspace,
                std::span<const std::unique_ptr<RankState>> stages);

}  // namespace longhaul
