#include "pp_group/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/c10d_status.h"
#include "pp_group/data/row_order.h"
#include "pp_group/local_pipelines.h"
#include "pp_group/local_rank.h"
#include "pp_group/outer/outer_round.h"
#include "pp_group/parameter_hash.h"
#include "pp_group/schedule/check.h"
#include "pp_group/subspace.h"
#include "pp_group/train_spec.h"

namespace longhaul {
namespace {

// What of a rank's step is not finite: "the loss is nan"; "": nothing.
std::string NotFinite(const RankState& state) {
  if (state.optimizer == nullptr) return "";
  const StageLayout& layout = state.stage->layout();
  const std::optional<double> loss = layout.last() ? state.pipeline->loss_sum() : std::nullopt;
  if (loss && !std::isfinite(*loss)) return absl::StrCat("the loss is ", *loss);
  for (const ParameterSlot& slot : layout.slots) {
    const double norm = state.gradient_norms[static_cast<size_t>(slot.clip_group)];
    if (std::isfinite(norm)) continue;
    const at::Tensor part = state.stage->gradients().narrow(0, slot.offset, slot.elements());
    if (at::isfinite(part).all().item<bool>()) continue;
    return absl::StrCat("NaN or Inf in the gradient of ", slot.name);
  }
  const auto beyond = std::find_if(state.gradient_norms.begin(), state.gradient_norms.end(),
                                   [](double norm) { return !std::isfinite(norm); });
  if (beyond == state.gradient_norms.end()) return "";
  return absl::StrCat("the gradient's norm is ", *beyond);
}

}  // namespace

Trainer::Trainer(const TrainSpec& spec, PipelineProgram program,
                 std::shared_ptr<const Corpus> corpus, std::function<absl::Duration()> now,
                 RoundKeeper* keeper)
    : spec_(spec),
      program_(std::move(program)),
      corpus_(std::move(corpus)),
      now_(std::move(now)),
      elastic_(keeper != nullptr),
      subspace_(spec_.subspace == 0
                    ? nullptr
                    : std::make_unique<Subspace>(spec_.model, spec_.seed, spec_.subspace)),
      outer_round_(std::make_unique<OuterRound>(spec_, ranks_, keeper, now_)),
      pipelines_(
          std::make_unique<LocalPipelines>(spec_, program_, ranks_, *corpus_, subspace_.get())) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Start(const std::vector<LocalRank>& ranks) {
  ASSIGN_OR_RETURN(Program order, GlobalOrder(program_));
  order_ = std::move(order);
  // Groups that meet average each stage by itself: then each end of a tied head has a matrix of its own.
  const bool shares = spec_.model.tied_head && spec_.stages > 1 && !spec_.compute && !elastic_ &&
                      !outer_round_->plan().meets();
  std::map<int, std::pair<StageFlats, StageFlats>> tied;  // by group
  const auto flats_of = [&](const LocalRank& rank) -> const StageFlats* {
    const int last = spec_.stages - 1;
    const bool is_end = rank.stage == 0 || rank.stage == last;
    const bool both = std::ranges::any_of(ranks, [&](const LocalRank& other) {
      return other.group == rank.group && other.stage == last - rank.stage;
    });
    if (!shares || !is_end || !both) return nullptr;
    const auto [at, is_new] = tied.try_emplace(rank.group);
    if (is_new) at->second = FlatsOfTiedStages(spec_);
    return rank.stage == 0 ? &at->second.first : &at->second.second;
  };
  for (const LocalRank& rank : ranks) {
    absl::StatusOr<std::unique_ptr<RankState>> state = std::unique_ptr<RankState>();
    const absl::Status made =
        StatusFromTorch(absl::StrCat("build stage ", rank.stage, " of group ", rank.group),
                        [&] { state = NewState(rank, flats_of(rank)); });  // a GPU may be full
    if (!made.ok()) return made;
    if (!state.ok()) return state.status();
    ranks_.push_back(*std::move(state));
  }
  SortRanks();
  return StatusFromTorch("build the pipelines",
                         [&] { JoinStages(spec_, program_, &now_, subspace_.get(), ranks_); });
}

absl::StatusOr<std::unique_ptr<RankState>> Trainer::NewState(const LocalRank& rank,
                                                             const StageFlats* flats) {
  std::shared_ptr<SharedSums>& sums = sums_[rank.stage];
  if (sums == nullptr) sums = std::make_shared<SharedSums>();
  return NewRankState(spec_, rank, &now_, subspace_.get(), sums, flats);
}

void Trainer::SortRanks() {
  std::sort(ranks_.begin(), ranks_.end(), [](const auto& a, const auto& b) {
    return std::pair(a->rank.group, a->rank.stage) < std::pair(b->rank.group, b->rank.stage);
  });
}

absl::Status Trainer::Guarded(const std::function<absl::Status()>& f) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  absl::Status result;
  try {
    result = f();
  } catch (...) {
    std::string where = absl::StrCat("step ", step_ + 1);
    const RankState* busy = busy_;
    if (busy == nullptr) busy = pipelines_->busy();
    if (busy == nullptr) busy = outer_round_->busy();
    if (busy != nullptr) {
      absl::StrAppend(&where, ", group ", busy->rank.group, ", ", busy->pipeline->Doing());
    }
    result = StatusOfCurrentException(where);
  }
  if (!result.ok()) spent_ = result;
  return result;
}

absl::Status Trainer::CheckUsable() const {
  if (spent_.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("trainer: stopped by an earlier failure: ", spent_.ToString()));
}

absl::Status Trainer::CheckTrains(const char* what) const {
  if (!spec_.compute) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("trainer: ", what, ": compute is injected, so that nothing is trained"));
}

// Of the step that comes, in the order of the data.
int64_t Trainer::FirstRow(const RankState& state) const {
  return (step_ * spec_.groups + state.rank.group) * spec_.batch_rows;
}

void Trainer::ReadRows(RankState& state) {
  const StageLayout& layout = state.stage->layout();
  if (!layout.first() && !layout.last() && !subspace_) return;
  const int64_t length = spec_.model.context + 1;
  state.rows.resize(static_cast<size_t>(spec_.batch_rows * length));
  for (int64_t i = 0; i < spec_.batch_rows; ++i) {
    corpus_->TrainRow(spec_.seed, FirstRow(state) + i, spec_.model.context,
                      std::span(state.rows).subspan(i * length, length));
  }
}

// By the first of a rank's stages, for all of them; of its stages both ends of the model may read.
void Trainer::BeginStep(const RankState& state) {
  const std::vector<int64_t>* rows = &state.rows;
  for (const auto& other : ranks_) {
    if (other->pipeline != state.pipeline) continue;
    if (other->rank.stage < state.rank.stage) return;
    if (!other->rows.empty()) rows = &other->rows;
  }
  std::vector<int64_t> samples;  // a micro-batch is one row
  for (int64_t i = 0; !spec_.sample_boundaries.empty() && i < spec_.batch_rows; ++i) {
    samples.push_back(
        TrainWindow(spec_.seed, FirstRow(state) + i, corpus_->train_rows(spec_.model.context)));
  }
  state.pipeline->BeginStep(*rows, std::move(samples));
}

absl::Status Trainer::RunPipelines() {
  for (auto& state : ranks_) {
    busy_ = state.get();
    ReadRows(*state);
    state->stage->ZeroGradients();
    if (state->past != nullptr) state->past->BeginStep();
  }
  for (auto& state : ranks_) {
    busy_ = state.get();
    BeginStep(*state);
  }
  busy_ = nullptr;
  // What is in flight between the groups advances between actions, and never waits there.
  absl::Status advanced;
  if (outer_round_->plan().InFlightAfter(step_).empty()) {
    pipelines_->Run(order_, on_action_);
    for (auto& state : ranks_) {
      if (state->past != nullptr) state->past->EndStep();
    }
    return advanced;
  }
  pipelines_->Run(order_, [&](const Action& action) {
    if (on_action_) on_action_(action);
    if (advanced.ok()) advanced = outer_round_->Advance();
  });
  return advanced;
}

void Trainer::SumTiedGradients() {
  const auto each = [this](absl::Duration StepReport::*spent, RankSpan::Kind kind,
                           void (TiedHead::*part)()) {
    for (auto& state : ranks_) {
      if (state->tied == nullptr) continue;
      busy_ = state.get();
      state->pipeline->Say("sum the tied head's gradient");
      const absl::Duration start = now_();
      (state->tied.get()->*part)();
      state->report.*spent +=
          Watched(state->rank.spans, {kind, start, now_(), std::nullopt, "tied head"});
    }
  };
  each(&StepReport::send, RankSpan::Kind::kSend, &TiedHead::SendGradient);
  each(&StepReport::wait, RankSpan::Kind::kWait, &TiedHead::ReceiveGradient);
  each(&StepReport::optimizer, RankSpan::Kind::kCompute, &TiedHead::AddGradient);
}

// The norms of the gradients as they are now.
void Trainer::MeasureGradients() {
  // Stages that share a GPU are waited for at once.
  const bool at_once = !ranks_.front()->stage->parameters().is_cpu();
  for (size_t begin = 0, end = 0; begin < ranks_.size(); begin = end) {
    end = at_once ? ranks_.size() : begin + 1;
    std::vector<RankState*> states;
    std::vector<const Stage*> stages;
    for (size_t i = begin; i < end; ++i) {
      if (ranks_[i]->optimizer == nullptr) continue;
      states.push_back(ranks_[i].get());
      stages.push_back(ranks_[i]->stage.get());
    }
    if (states.empty()) continue;
    busy_ = states.front();
    const absl::Duration start = now_();
    for (const Stage* stage : stages) {
      if (subspace_) subspace_->ProjectGradients(*stage);
    }
    const std::vector<ClipSquares> squares = ClipSquaresOf(stages);
    for (size_t i = 0; i < states.size(); ++i) {
      states[i]->gradient_norms = GradientNorms(squares[i], states[i]->spread_squares);
    }
    states.front()->report.optimizer +=
        Watched(states.front()->rank.spans,
                {RankSpan::Kind::kCompute, start, now_(), std::nullopt, "gradient norm"});
  }
  busy_ = nullptr;
}

// Before anything is changed by gradients that are not finite. No message is sent for it, which would
// cost a round trip in each step: another rank of the pipeline may have finished the same step, and
// goes no further without this one.
absl::Status Trainer::CheckFinite(bool groups_may_skip) {
  absl::Status first;
  std::set<int> groups, diverged;
  for (const auto& state : ranks_) {
    groups.insert(state->rank.group);
    std::string what = NotFinite(*state);
    if (what.empty()) continue;
    diverged.insert(state->rank.group);
    if (!first.ok()) continue;
    first = absl::OutOfRangeError(absl::StrCat("step ", step_ + 1, ", group ", state->rank.group,
                                               ", stage ", state->rank.stage, ": ", what));
  }
  if (diverged.empty() || !groups_may_skip || diverged == groups) return first;
  for (const auto& state : ranks_) {
    if (!diverged.contains(state->rank.group)) continue;
    state->poison = std::numeric_limits<double>::quiet_NaN();
    state->gradient_norms.clear();
  }
  return absl::OkStatus();
}

void Trainer::UpdateParameters() {
  for (auto& state : ranks_) {
    busy_ = state.get();
    const absl::Duration start = now_();
    if (state->optimizer == nullptr) {
      state->stage->UpdateItself();
    } else if (!state->gradient_norms.empty()) {
      state->report.clipped_groups =
          state->optimizer->Step(step_, spec_.steps, state->stage.get(), state->gradient_norms) +
          (state->outer == nullptr ? 0 : state->outer->clipped_groups());
      if (subspace_) subspace_->ProjectParameters(state->stage.get());
    }
    state->report.optimizer += Watched(
        state->rank.spans, {RankSpan::Kind::kCompute, start, now_(), std::nullopt, "update"});
  }
}

bool Trainer::HashDue() const {
  if (step_ == spec_.steps) return true;
  if (spec_.hash_every > 0) return step_ % spec_.hash_every == 0;
  return (spec_.checkpoint_every > 0 && step_ % spec_.checkpoint_every == 0) ||
         !outer_round_->plan().AppliedAfter(step_).empty();
}

absl::StatusOr<std::vector<StepReport>> Trainer::Step() {
  RETURN_IF_ERROR(CheckUsable());
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
    RETURN_IF_ERROR(RunPipelines());
    SumTiedGradients();
    busy_ = nullptr;
    // Codecs and momenta between groups are not to be spent on what no group can use; and what comes
    // back from them has left the subspace.
    const OuterPlan& outer = outer_round_->plan();
    for (auto& state : ranks_) state->spread_squares.clear();
    if (outer.gradients()) {
      MeasureGradients();
      RETURN_IF_ERROR(CheckFinite(/*groups_may_skip=*/false));
    }
    RETURN_IF_ERROR(outer_round_->AverageGradients(step_ + 1));
    MeasureGradients();
    RETURN_IF_ERROR(CheckFinite(elastic_ && !outer.gradients()));
    UpdateParameters();
    busy_ = nullptr;
    RETURN_IF_ERROR(outer_round_->Run(step_ + 1));
    for (auto& state : ranks_) {
      if (subspace_ && outer.exchanges()) subspace_->ProjectParameters(state->stage.get());
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  for (auto& state : ranks_) state->stage->ParametersChanged();
  ++step_;
  std::vector<StepReport> reports;
  for (auto& state : ranks_) {
    const PipelineTimes& times = state->pipeline->times(state->rank.stage);
    StepReport& report = state->report;
    report.forward = times.forward;
    report.backward = times.backward;
    report.send += times.send;
    report.wait += times.wait;
    if (HashDue()) report.parameter_hash = HashOf(state->stage->parameters());
    const std::optional<double> sum =
        state->stage->layout().last() ? state->pipeline->loss_sum() : std::nullopt;
    if (sum) {
      report.loss = *sum / static_cast<double>(tokens);
    }
  }
  for (auto& state : ranks_) {
    state->report.wall = now_() - start;
    reports.push_back(state->report);
  }
  return reports;
}

absl::StatusOr<std::optional<Evaluation>> Trainer::Evaluate(BoundaryCodec codec, int64_t rows) {
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_ERROR(CheckTrains("no held-out loss"));
  const int64_t available = corpus_->held_out_rows(spec_.model.context);
  if (rows < 1 || rows > available) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation on ", rows, " rows: the held-out part has ", available));
  }
  std::optional<RowLosses> losses;
  RETURN_IF_ERROR(Guarded([&] {
    busy_ = nullptr;
    losses = pipelines_->Evaluate(evaluated_group(), codec, rows);
    return absl::OkStatus();
  }));
  if (!losses) return std::optional<Evaluation>();
  const double n = static_cast<double>(rows);
  const double mean = std::accumulate(losses->mean.begin(), losses->mean.end(), 0.0) / n;
  if (!std::isfinite(mean)) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step_, ", group ", evaluated_group(), ", stage ", spec_.stages - 1,
                     ": the held-out loss is ", mean, " with the boundary codec ",
                     codec == BoundaryCodec::kOn ? "on" : "off"));
  }
  double squares = 0;
  for (double row : losses->mean) squares += (row - mean) * (row - mean);
  return Evaluation{.loss = mean,
                    .tokens = rows * spec_.model.context,
                    .block_se = rows > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

int Trainer::evaluated_group() const { return outer_round_->lowest_member(); }

absl::Status Trainer::FinishSends() {
  RETURN_IF_ERROR(CheckUsable());
  return Guarded([&] {
    for (auto& state : ranks_) {
      busy_ = state.get();
      state->pipeline->FinishSends();
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainSpec& spec,
                                                         std::vector<LocalRank> ranks,
                                                         std::shared_ptr<const Corpus> corpus,
                                                         std::function<absl::Duration()> now,
                                                         RoundKeeper* keeper) {
  RETURN_IF_ERROR(CheckTrainSpec(spec, *corpus));
  ASSIGN_OR_RETURN(PipelineProgram program, ProgramOf(spec));
  RETURN_IF_ERROR(CheckLocalRanks(spec, program, ranks, keeper != nullptr));
  std::unique_ptr<Trainer> trainer(
      new Trainer(spec, std::move(program), std::move(corpus), std::move(now), keeper));
  RETURN_IF_ERROR(trainer->Start(ranks));
  return trainer;
}

}  // namespace longhaul
