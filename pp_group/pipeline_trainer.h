#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>

#include "absl/strings/str_cat.h"
#include "pp_group/c10d_status.h"
#include "pp_group/local_pipelines.h"
#include "pp_group/local_rank.h"
#include "pp_group/outer/outer_round.h"
#include "pp_group/subspace.h"
#include "pp_group/train_spec.h"
#include "pp_group/trainer.h"

namespace longhaul {

// The trainer of any stage, engine and schedule. Steps: trainer.cc; what its ranks hold, to and
// from other groups and files: trainer_state.cc.
class PipelineTrainer : public Trainer {
 public:
  PipelineTrainer(const TrainSpec& spec, PipelineProgram program,
                  std::shared_ptr<const Corpus> corpus, std::function<absl::Duration()> now,
                  RoundKeeper* keeper)
      : spec_(spec),
        program_(std::move(program)),
        corpus_(std::move(corpus)),
        now_(std::move(now)),
        subspace_(spec_.subspace == 0
                      ? nullptr
                      : std::make_unique<Subspace>(spec_.model, spec_.seed, spec_.subspace)),
        outer_round_(spec_, ranks_, keeper, now_),
        pipelines_(spec_, program_, ranks_, *corpus_, subspace()) {}

  absl::Status Start(const std::vector<LocalRank>& ranks);

  absl::StatusOr<std::vector<StepReport>> Step() override;
  absl::StatusOr<std::optional<Evaluation>> Evaluate(BoundaryCodec codec, int64_t rows) override;
  int64_t step() const override { return step_; }
  int evaluated_group() const override { return outer_round_.lowest_member(); }
  void LoseGroup(int group) override;
  absl::Status AddGroup(std::vector<LocalRank> ranks, const std::vector<int>& givers,
                        const std::vector<int>& lost) override;
  absl::Status GiveState(int stage, c10d::Backend& to, int peer) override;
  absl::Status TakeState(int64_t step, c10d::Backend& from, int peer) override;
  absl::Status WriteState(int stage, int place, int givers, const std::string& folder) override;
  absl::Status ReadState(int64_t step, const std::vector<bool>& lost,
                         const std::string& folder) override;
  void Poison(int group, double factor) override;
  void OnAction(std::function<void(const Action&)> call) override { on_action_ = std::move(call); }
  absl::Status FinishSends() override;
  absl::StatusOr<std::vector<Checkpoint>> Snapshot() override;
  absl::Status LoadCheckpoint(const std::string& directory,
                              std::vector<std::string>* passed_over) override;
  absl::StatusOr<Restored> RestoreFrom(const std::string& directory) override;

 private:
  // Runs f, which may throw; a failure spends the trainer.
  template <typename F>
  absl::Status Guarded(F f);
  absl::Status CheckUsable() const;
  absl::Status CheckTrains(const char* what) const;

  int64_t FirstRow(const RankState& state) const;
  void ReadRows(RankState& state);
  void BeginStep(const RankState& state);
  bool experts_are_spread() const { return spec_.model.expert_parallel > 1; }
  absl::Status RunPipelines();
  void SumTiedGradients();
  const Subspace* subspace() const { return subspace_.get(); }
  void UpdateParameters();
  void SortRanks();
  absl::Status CopyTiedMoments(std::span<const std::unique_ptr<RankState>> ranks);
  RankState* Holder(int stage);  // a local rank of the stage; null: none
  // By place in `givers`; null: of `lost`, or not local.
  std::vector<const RankState*> GiversOf(int stage, const std::vector<int>& givers,
                                         const std::vector<int>& lost) const;

  const TrainSpec spec_;
  const PipelineProgram program_;
  const std::shared_ptr<const Corpus> corpus_;
  const std::function<absl::Duration()> now_;
  const std::unique_ptr<const Subspace> subspace_;  // null: the spec has none
  std::function<void(const Action&)> on_action_;
  Program order_;  // all stages' actions; this thread runs the local ones in this order
  std::vector<std::unique_ptr<RankState>> ranks_;  // by group, then stage
  OuterRound outer_round_;
  LocalPipelines pipelines_;
  int64_t step_ = 0;
  const RankState* busy_ = nullptr;  // for error messages
  absl::Status spent_;
};

template <typename F>
absl::Status PipelineTrainer::Guarded(F f) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  absl::Status result;
  try {
    result = f();
  } catch (...) {
    std::string where = absl::StrCat("step ", step_ + 1);
    const RankState* busy = busy_;
    if (busy == nullptr) busy = pipelines_.busy();
    if (busy == nullptr) busy = outer_round_.busy();
    if (busy != nullptr) {
      absl::StrAppend(&where, ", group ", busy->rank.group, ", ", busy->pipeline->Doing());
    }
    result = StatusOfCurrentException(where);
  }
  if (!result.ok()) spent_ = result;
  return result;
}

}  // namespace longhaul
