#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/c10d_status.h"
#include "pp_group/local_rank.h"
#include "pp_group/outer/outer_round.h"
#include "pp_group/state/handover.h"
#include "pp_group/state/reshard.h"
#include "pp_group/state/resume.h"
#include "pp_group/subspace.h"
#include "pp_group/train_spec.h"
#include "pp_group/trainer.h"

namespace longhaul {

// Of a joiner, whose two ends took an element's history each from another member, or lost one.
absl::Status Trainer::CopyTiedMoments(std::span<const std::unique_ptr<RankState>> ranks) {
  return StatusFromTorch("copy the tied head's moments", [&] {
    for (const auto& state : ranks) {
      if (state->tied == nullptr || state->optimizer == nullptr) continue;
      state->tied->BeginCopy({state->optimizer->first_moment(), state->optimizer->second_moment()});
    }
    for (const auto& state : ranks) {
      if (state->tied != nullptr) state->tied->FinishCopy();
    }
  });
}

RankState* Trainer::Holder(int stage) {
  for (auto& state : ranks_) {
    if (state->rank.stage == stage) return state.get();
  }
  return nullptr;
}

void Trainer::LoseGroup(int group) {
  std::erase_if(ranks_, [group](const auto& state) { return state->rank.group == group; });
}

std::vector<const RankState*> Trainer::GiversOf(int stage, const std::vector<int>& givers,
                                                const std::vector<int>& lost) const {
  std::vector<const RankState*> found;
  for (const int group : givers) {
    const auto at = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& state) {
      return state->rank.group == group && state->rank.stage == stage;
    });
    const bool there = at != ranks_.end() && std::count(lost.begin(), lost.end(), group) == 0;
    found.push_back(there ? at->get() : nullptr);
  }
  return found;
}

absl::Status Trainer::AddGroup(std::vector<LocalRank> ranks, const std::vector<int>& givers,
                               const std::vector<int>& lost) {
  std::vector<std::unique_ptr<RankState>> fresh;
  for (const LocalRank& rank : ranks) {
    const RankState* holder = Holder(rank.stage);
    if (holder == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "group ", rank.group, ": no group is left that it could take its state from"));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<RankState> state, NewState(rank));
    if (givers.empty()) {
      CopyState(*holder, state.get());
    } else if (!CopyStateOfAll(GiversOf(rank.stage, givers, lost), state.get())) {
      return absl::UnavailableError(absl::StrCat(
          "group ", rank.group, ": all groups were lost while they handed their state over"));
    }
    fresh.push_back(std::move(state));
  }
  RETURN_IF_ERROR(StatusFromTorch(
      "build the pipelines", [&] { JoinStages(spec_, program_, &now_, subspace_.get(), fresh); }));
  if (!givers.empty()) {
    RETURN_IF_ERROR(CopyTiedMoments(fresh));
  }
  for (auto& state : fresh) ranks_.push_back(std::move(state));
  SortRanks();
  return absl::OkStatus();
}

absl::Status Trainer::GiveState(int stage, c10d::Backend& to, int peer) {
  const RankState* holder = Holder(stage);
  if (holder == nullptr) return absl::InternalError(absl::StrCat("no local stage ", stage));
  return SendState(*holder, to, peer);
}

absl::Status Trainer::TakeState(int64_t step, c10d::Backend& from, int peer) {
  RETURN_IF_ERROR(ReceiveState(ranks_.front().get(), from, peer));
  step_ = step;
  return absl::OkStatus();
}

absl::Status Trainer::WriteState(int stage, int place, int givers, const std::string& folder) {
  const RankState* holder = Holder(stage);
  if (holder == nullptr) return absl::InternalError(absl::StrCat("no local stage ", stage));
  absl::Status written;
  const absl::Status torch = StatusFromTorch(
      "write the state", [&] { written = longhaul::WriteState(*holder, place, givers, folder); });
  return torch.ok() ? written : torch;
}

absl::Status Trainer::ReadState(int64_t step, const std::vector<bool>& lost,
                                const std::string& folder) {
  absl::Status read;
  RETURN_IF_ERROR(StatusFromTorch(
      "read the state", [&] { read = longhaul::ReadState(folder, lost, ranks_.front().get()); }));
  if (read.ok()) read = CopyTiedMoments(ranks_);
  if (read.ok()) step_ = step;
  return read;
}

void Trainer::Poison(int group, double factor) {
  for (auto& state : ranks_) {
    if (state->rank.group == group) state->poison = factor;
  }
}

absl::StatusOr<std::vector<Checkpoint>> Trainer::Snapshot() {
  RETURN_IF_ERROR(CheckTrains("no checkpoint"));
  RETURN_IF_ERROR(Guarded([&] { return outer_round_->Drain(step_); }));
  RETURN_IF_ERROR(FinishSends());
  return CheckpointsOf(ranks_, step_, CanonicalText(spec_, *corpus_));
}

absl::Status Trainer::LoadCheckpoint(const std::string& directory,
                                     std::vector<std::string>* passed_over) {
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(CheckTrains("no checkpoint"));
  absl::StatusOr<LoadedStep> loaded;
  // Only an exception spends the trainer: a file that cannot be loaded has changed nothing.
  absl::Status status = Guarded([&] {
    busy_ = nullptr;
    loaded = LoadRanks(ranks_, directory, CanonicalText(spec_, *corpus_));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!loaded.ok()) return loaded.status();
  for (auto& state : ranks_) state->stage->ParametersChanged();
  step_ = loaded->step;
  outer_round_->Restored(step_);
  if (passed_over != nullptr) *passed_over = std::move(loaded->passed_over);
  return absl::OkStatus();
}

absl::StatusOr<Restored> Trainer::RestoreFrom(const std::string& directory) {
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(CheckTrains("no checkpoint"));
  absl::StatusOr<Restored> restored;
  absl::Status status = Guarded([&] {
    busy_ = nullptr;
    restored = RestoreRanks(ranks_, directory, spec_, CanonicalText(spec_, *corpus_));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!restored.ok()) return restored.status();
  for (auto& state : ranks_) {
    state->stage->ParametersChanged();
    if (state->past != nullptr) state->past->Forget();
  }
  if (!program_.flushes())
    restored->dropped.emplace_back("weights of past steps: the pipeline fills");
  step_ = restored->step;
  outer_round_->Restored(step_);
  return restored;
}

absl::Status Trainer::SaveCheckpoint(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<Checkpoint> checkpoints, Snapshot());
  for (const Checkpoint& checkpoint : checkpoints) {
    RETURN_IF_ERROR(WriteCheckpoint(directory, checkpoint));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
