#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pp_group/data/corpus.h"
#include "pp_group/executor.h"
#include "pp_group/local_rank.h"
#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/trainer.h"

namespace longhaul {

// The passes of all local ranks: on the calling thread, in one order of all their actions. Where
// experts are spread over groups, stages wait for their peers in the midst of a pass: then each
// local group runs on a thread of its own while a call lasts. Throws what c10d does, and Diverged;
// the first of several groups that fail ends the others.
class LocalPipelines {
 public:
  // Borrows its arguments. `ranks` by group, then stage; it may change between calls.
  LocalPipelines(const TrainSpec& spec, const PipelineProgram& program,
                 const std::vector<std::unique_ptr<RankState>>& ranks, const Corpus& corpus,
                 const Subspace* subspace)
      : spec_(spec), program_(program), ranks_(ranks), corpus_(corpus), subspace_(subspace) {}

  // One step's actions, of all stages; those of the local ones are run. Their pipelines have begun
  // the step. `on_action` (may be empty) is called before each.
  void Run(const Program& order, const std::function<void(const Action&)>& on_action);

  // EvaluateRows of `group`; nullopt where its last stage is not local. Where experts are spread,
  // every group takes the same rows, and so runs its experts for them.
  std::optional<RowLosses> Evaluate(int group, BoundaryCodec codec, int64_t rows);

  const RankState* busy() const { return busy_; }  // at work just now, for error messages

 private:
  using Group = std::span<const std::unique_ptr<RankState>>;
  bool experts_are_spread() const { return spec_.model.expert_parallel > 1; }
  std::vector<Group> Groups() const;
  std::optional<RowLosses> EvaluateGroup(Group ranks, BoundaryCodec codec, int64_t rows) const;
  void InParallel(const std::vector<Group>& groups,
                  const std::function<void(const Group&, const RankState**)>& run);

  const TrainSpec& spec_;
  const PipelineProgram& program_;
  const std::vector<std::unique_ptr<RankState>>& ranks_;
  const Corpus& corpus_;
  const Subspace* const subspace_;  // null: the spec has none
  const RankState* busy_ = nullptr;
};

}  // namespace longhaul
