#include "pp_group/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "absl/strings/str_cat.h"
#include "pp_group/c10d_status.h"
#include "pp_group/handover.h"
#include "pp_group/local_pipelines.h"
#include "pp_group/local_rank.h"
#include "pp_group/outer_round.h"
#include "pp_group/reshard.h"
#include "pp_group/resume.h"
#include "pp_group/schedule/catalog.h"
#include "pp_group/schedule/check.h"
#include "pp_group/train_spec.h"

namespace longhaul {
namespace {

class PipelineTrainer : public Trainer {
 public:
  PipelineTrainer(const TrainSpec& spec, std::shared_ptr<const Corpus> corpus,
                  std::function<absl::Duration()> now, RoundKeeper* keeper)
      : spec_(spec),
        corpus_(std::move(corpus)),
        now_(std::move(now)),
        outer_round_(spec_, ranks_, keeper, now_),
        pipelines_(spec_, ranks_, *corpus_) {}

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

  void ReadRows(RankState& state);
  bool experts_are_spread() const { return spec_.model.expert_parallel > 1; }
  void RunPipelines();
  void UpdateParameters();
  absl::Status AverageGradients();
  void SortRanks();
  RankState* Holder(int stage);  // a local rank of the stage; null: none
  // By place in `givers`; null: of `lost`, or not local.
  std::vector<const RankState*> GiversOf(int stage, const std::vector<int>& givers,
                                         const std::vector<int>& lost) const;
  // All local ranks begin, then all finish what crosses between groups.
  template <typename Begin, typename Finish>
  absl::Status Exchange(Begin begin, Finish finish);

  const TrainSpec spec_;
  const std::shared_ptr<const Corpus> corpus_;
  const std::function<absl::Duration()> now_;
  std::function<void(const Action&)> on_action_;
  Program order_;  // all stages' actions; this thread runs the local ones in this order
  std::vector<std::unique_ptr<RankState>> ranks_;  // by group, then stage
  OuterRound outer_round_;
  LocalPipelines pipelines_;
  int64_t step_ = 0;
  const RankState* busy_ = nullptr;  // for error messages
  absl::Status spent_;
};

absl::Status PipelineTrainer::Start(const std::vector<LocalRank>& ranks) {
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec_.schedule);
  if (!schedule.ok()) return schedule.status();
  const PipelineProgram program =
      ProgramOf(*schedule, spec_.stages, static_cast<int>(spec_.microbatches));
  if (absl::Status status = CheckProgram(program); !status.ok()) return status;
  if (absl::Status status = CheckMicrobatchOrder(program); !status.ok()) return status;
  absl::StatusOr<Program> order = GlobalOrder(program);
  if (!order.ok()) return order.status();
  order_ = *std::move(order);
  for (const LocalRank& rank : ranks) {
    absl::StatusOr<std::unique_ptr<RankState>> state = NewRankState(spec_, rank, &now_);
    if (!state.ok()) return state.status();
    ranks_.push_back(*std::move(state));
  }
  SortRanks();
  return absl::OkStatus();
}

void PipelineTrainer::SortRanks() {
  std::sort(ranks_.begin(), ranks_.end(), [](const auto& a, const auto& b) {
    return std::pair(a->rank.group, a->rank.stage) < std::pair(b->rank.group, b->rank.stage);
  });
}

absl::Status PipelineTrainer::CheckUsable() const {
  if (spent_.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("trainer: stopped by an earlier failure: ", spent_.ToString()));
}

absl::Status PipelineTrainer::CheckTrains(const char* what) const {
  if (!spec_.compute) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("trainer: ", what, ": compute is injected, so that nothing is trained"));
}

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

void PipelineTrainer::ReadRows(RankState& state) {
  const StageLayout& layout = state.stage->layout();
  if (!layout.first() && !layout.last()) return;
  const int64_t length = spec_.model.context + 1;
  state.rows.resize(static_cast<size_t>(spec_.batch_rows * length));
  const int64_t begin = (step_ * spec_.groups + state.rank.group) * spec_.batch_rows;
  for (int64_t i = 0; i < spec_.batch_rows; ++i) {
    corpus_->TrainRow(spec_.seed, begin + i, spec_.model.context,
                      std::span(state.rows).subspan(i * length, length));
  }
}

void PipelineTrainer::RunPipelines() {
  for (auto& state : ranks_) {
    busy_ = state.get();
    ReadRows(*state);
    state->stage->ZeroGradients();
    state->pipeline->BeginStep(state->rows);
  }
  busy_ = nullptr;
  pipelines_.Run(order_, on_action_);
}

void PipelineTrainer::UpdateParameters() {
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    if (state->optimizer == nullptr) {
      state->stage->UpdateItself();
    } else {
      state->report.clipped_groups =
          state->optimizer->Step(step_, spec_.steps, state->stage.get(), state->spread_squares);
    }
    state->report.optimizer = now_() - start;
  }
}

template <typename Begin, typename Finish>
absl::Status PipelineTrainer::Exchange(Begin begin, Finish finish) {
  for (auto& state : ranks_) {
    const absl::Duration start = now_();
    if (absl::Status status = begin(*state); !status.ok()) return status;
    state->report.outer += now_() - start;
  }
  for (auto& state : ranks_) {
    const absl::Duration start = now_();
    if (absl::Status status = finish(*state); !status.ok()) return status;
    state->report.outer += now_() - start;
    state->report.outer_synced = true;
    state->report.outer_bytes_sent = state->exchange()->bytes_sent();
  }
  return absl::OkStatus();
}

absl::Status PipelineTrainer::AverageGradients() {
  absl::Status averaged =
      Exchange([this](RankState& state) { return state.gradients->Begin(step_ + 1, *state.stage); },
               [](RankState& state) { return state.gradients->Finish(state.stage.get()); });
  if (!averaged.ok() || !experts_are_spread()) return averaged;
  return Exchange(
      [](RankState& state) {
        state.gradients->BeginSquares(*state.stage);
        return absl::OkStatus();
      },
      [](RankState& state) {
        state.spread_squares = state.gradients->FinishSquares();
        return absl::OkStatus();
      });
}

RankState* PipelineTrainer::Holder(int stage) {
  for (auto& state : ranks_) {
    if (state->rank.stage == stage) return state.get();
  }
  return nullptr;
}

void PipelineTrainer::LoseGroup(int group) {
  std::erase_if(ranks_, [group](const auto& state) { return state->rank.group == group; });
}

std::vector<const RankState*> PipelineTrainer::GiversOf(int stage, const std::vector<int>& givers,
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

absl::Status PipelineTrainer::AddGroup(std::vector<LocalRank> ranks, const std::vector<int>& givers,
                                       const std::vector<int>& lost) {
  std::vector<std::unique_ptr<RankState>> fresh;
  for (const LocalRank& rank : ranks) {
    const RankState* holder = Holder(rank.stage);
    if (holder == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "group ", rank.group, ": no group is left that it could take its state from"));
    }
    absl::StatusOr<std::unique_ptr<RankState>> state = NewRankState(spec_, rank, &now_);
    if (!state.ok()) return state.status();
    if (givers.empty()) {
      CopyState(*holder, state->get());
    } else if (!CopyStateOfAll(GiversOf(rank.stage, givers, lost), state->get())) {
      return absl::UnavailableError(absl::StrCat(
          "group ", rank.group, ": all groups were lost while they handed their state over"));
    }
    fresh.push_back(*std::move(state));
  }
  for (auto& state : fresh) ranks_.push_back(std::move(state));
  SortRanks();
  return absl::OkStatus();
}

absl::Status PipelineTrainer::GiveState(int stage, c10d::Backend& to, int peer) {
  const RankState* holder = Holder(stage);
  if (holder == nullptr) return absl::InternalError(absl::StrCat("no local stage ", stage));
  return SendState(*holder, to, peer);
}

absl::Status PipelineTrainer::TakeState(int64_t step, c10d::Backend& from, int peer) {
  const absl::Status taken = ReceiveState(ranks_.front().get(), from, peer);
  if (!taken.ok()) return taken;
  step_ = step;
  return absl::OkStatus();
}

absl::Status PipelineTrainer::WriteState(int stage, int place, int givers,
                                         const std::string& folder) {
  const RankState* holder = Holder(stage);
  if (holder == nullptr) return absl::InternalError(absl::StrCat("no local stage ", stage));
  absl::Status written;
  const absl::Status torch = StatusFromTorch(
      "write the state", [&] { written = longhaul::WriteState(*holder, place, givers, folder); });
  return torch.ok() ? written : torch;
}

absl::Status PipelineTrainer::ReadState(int64_t step, const std::vector<bool>& lost,
                                        const std::string& folder) {
  absl::Status read;
  const absl::Status torch = StatusFromTorch(
      "read the state", [&] { read = longhaul::ReadState(folder, lost, ranks_.front().get()); });
  if (!torch.ok()) return torch;
  if (read.ok()) step_ = step;
  return read;
}

void PipelineTrainer::Poison(int group, double factor) {
  for (auto& state : ranks_) {
    if (state->rank.group == group) state->poison = factor;
  }
}

absl::StatusOr<std::vector<StepReport>> PipelineTrainer::Step() {
  if (absl::Status status = CheckUsable(); !status.ok()) return status;
  if (step_ == spec_.steps) {
    return absl::FailedPreconditionError(absl::StrCat("all ", spec_.steps, " steps are done"));
  }
  const absl::Duration start = now_();
  const int64_t tokens = spec_.batch_rows * spec_.model.context;
  for (auto& state : ranks_) {
    state->report = StepReport();
    state->report.group = state->rank.group;
    state->report.stage = state->rank.stage;
    state->report.step = step_ + 1;
    state->report.tokens = tokens;
  }
  absl::Status status = Guarded([&] {
    RunPipelines();
    busy_ = nullptr;
    if (spec_.outer.algorithm == OuterAlgorithm::kDataParallel) {
      if (absl::Status averaged = AverageGradients(); !averaged.ok()) return averaged;
    }
    UpdateParameters();
    busy_ = nullptr;
    if (!OuterStepIsDue(spec_.outer, step_ + 1, spec_.steps)) return absl::OkStatus();
    return outer_round_.Run(step_ + 1);
  });
  if (!status.ok()) return status;
  for (auto& state : ranks_) state->stage->ParametersChanged();
  ++step_;
  std::vector<StepReport> reports;
  for (auto& state : ranks_) {
    const PipelineTimes& times = state->pipeline->times();
    StepReport& report = state->report;
    report.forward = times.forward;
    report.backward = times.backward;
    report.send = times.send;
    report.wait = times.wait;
    report.parameter_hash = HashOf(state->stage->parameters());
    if (const std::optional<double> sum = state->pipeline->loss_sum()) {
      report.loss = *sum / static_cast<double>(tokens);
    }
  }
  for (auto& state : ranks_) {
    state->report.wall = now_() - start;
    reports.push_back(state->report);
  }
  return reports;
}

absl::StatusOr<std::optional<Evaluation>> PipelineTrainer::Evaluate(BoundaryCodec codec,
                                                                    int64_t rows) {
  if (absl::Status status = CheckUsable(); !status.ok()) return status;
  if (absl::Status status = CheckTrains("no held-out loss"); !status.ok()) return status;
  const int64_t available = corpus_->held_out_rows(spec_.model.context);
  if (rows < 1 || rows > available) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation on ", rows, " rows: the held-out part has ", available));
  }
  std::optional<RowLosses> losses;
  absl::Status status = Guarded([&] {
    busy_ = nullptr;
    losses = pipelines_.Evaluate(evaluated_group(), codec, rows);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!losses) return std::optional<Evaluation>();
  const double n = static_cast<double>(rows);
  const double mean = std::accumulate(losses->mean.begin(), losses->mean.end(), 0.0) / n;
  double squares = 0;
  for (double row : losses->mean) squares += (row - mean) * (row - mean);
  return Evaluation{.loss = mean,
                    .tokens = rows * spec_.model.context,
                    .block_se = rows > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

absl::Status PipelineTrainer::FinishSends() {
  if (absl::Status status = CheckUsable(); !status.ok()) return status;
  return Guarded([&] {
    for (auto& state : ranks_) {
      busy_ = state.get();
      state->pipeline->FinishSends();
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Checkpoint>> PipelineTrainer::Snapshot() {
  if (absl::Status status = CheckTrains("no checkpoint"); !status.ok()) return status;
  if (absl::Status sent = FinishSends(); !sent.ok()) return sent;
  return CheckpointsOf(ranks_, step_, CanonicalText(spec_, *corpus_));
}

absl::Status PipelineTrainer::LoadCheckpoint(const std::string& directory,
                                             std::vector<std::string>* passed_over) {
  if (absl::Status status = CheckUsable(); !status.ok()) return status;
  if (absl::Status status = CheckTrains("no checkpoint"); !status.ok()) return status;
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
  if (passed_over != nullptr) *passed_over = std::move(loaded->passed_over);
  return absl::OkStatus();
}

absl::StatusOr<Restored> PipelineTrainer::RestoreFrom(const std::string& directory) {
  if (absl::Status status = CheckUsable(); !status.ok()) return status;
  if (absl::Status status = CheckTrains("no checkpoint"); !status.ok()) return status;
  absl::StatusOr<Restored> restored;
  absl::Status status = Guarded([&] {
    busy_ = nullptr;
    restored = RestoreRanks(ranks_, directory, spec_, CanonicalText(spec_, *corpus_));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (!restored.ok()) return restored.status();
  for (auto& state : ranks_) state->stage->ParametersChanged();
  step_ = restored->step;
  return restored;
}

}  // namespace

absl::Status Trainer::SaveCheckpoint(const std::string& directory) {
  const absl::StatusOr<std::vector<Checkpoint>> checkpoints = Snapshot();
  if (!checkpoints.ok()) return checkpoints.status();
  for (const Checkpoint& checkpoint : *checkpoints) {
    if (absl::Status s = WriteCheckpoint(directory, checkpoint); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainSpec& spec,
                                                         std::vector<LocalRank> ranks,
                                                         std::shared_ptr<const Corpus> corpus,
                                                         std::function<absl::Duration()> now,
                                                         RoundKeeper* keeper) {
  if (absl::Status status = CheckTrainSpec(spec, *corpus); !status.ok()) return status;
  if (absl::Status status = CheckLocalRanks(spec, ranks, keeper != nullptr); !status.ok())
    return status;
  auto trainer = std::make_unique<PipelineTrainer>(spec, std::move(corpus), std::move(now), keeper);
  if (absl::Status status = trainer->Start(ranks); !status.ok()) return status;
  return trainer;
}

}  // namespace longhaul
