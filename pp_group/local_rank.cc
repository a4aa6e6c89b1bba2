#include "pp_group/local_rank.h"

#include <map>
#include <utility>

#include <ATen/ATen.h>

#include "base/status_macros.h"
#include "pp_group/models/model.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {

namespace {

absl::Status FillInitial(const TrainSpec& spec, Stage* stage) {
  if (!spec.initial) return absl::OkStatus();
  const at::Tensor flat = at::zeros({stage->layout().flat_elements}, at::kFloat);
  RETURN_IF_ERROR(spec.initial(stage->layout(), flat.data_ptr<float>()));
  stage->parameters().copy_(flat);
  stage->ParametersChanged();
  return absl::OkStatus();
}

}  // namespace

std::pair<StageFlats, StageFlats> FlatsOfTiedStages(const TrainSpec& spec) {
  const StageLayout first = LayoutOf(spec.model, 0, spec.stages, spec.cuts),
                    last = LayoutOf(spec.model, spec.stages - 1, spec.stages, spec.cuts);
  const int64_t own = last.tied->begin;  // of the last stage alone
  std::pair<StageFlats, StageFlats> flats;
  for (at::Tensor StageFlats::*member :
       {&StageFlats::parameters, &StageFlats::first_moment, &StageFlats::second_moment}) {
    const at::Tensor both =
        at::zeros({own + first.flat_elements},
                  at::TensorOptions(at::kFloat).device(DeviceOf(spec.stage_compute)));
    flats.first.*member = both.narrow(0, own, first.flat_elements);
    flats.second.*member = both.narrow(0, 0, last.flat_elements);
  }
  return flats;
}

absl::StatusOr<std::unique_ptr<RankState>> NewRankState(
    const TrainSpec& spec, const LocalRank& rank, const std::function<absl::Duration()>* now,
    const Subspace* subspace, std::shared_ptr<SharedSums> sums, const StageFlats* flats) {
  auto state = std::make_unique<RankState>();
  state->rank = rank;
  absl::StatusOr<std::unique_ptr<Stage>> stage =
      NewStage(spec.model, {.stage = rank.stage,
                            .stages = spec.stages,
                            .seed = spec.seed,
                            .cuts = spec.cuts,
                            .microbatches = spec.microbatches,
                            .compute = spec.stage_compute,
                            .injected = spec.compute ? &*spec.compute : nullptr,
                            .now = now,
                            .expert_peers = spec.model.expert_parallel > 1
                                                ? rank.experts
                                                : c10::intrusive_ptr<c10d::Backend>(),
                            .flat = flats == nullptr ? at::Tensor() : flats->parameters});
  if (!stage.ok()) return stage.status();
  state->stage = *std::move(stage);
  if (state->stage->trains()) {
    RETURN_IF_ERROR(FillInitial(spec, state->stage.get()));
    if (subspace != nullptr) subspace->ProjectParameters(state->stage.get());
    AdamWSpec inner = spec.inner;
    inner.optimizer = InnerOptimizerOf(inner.optimizer, spec.outer.algorithm);
    inner.joint_stream_moments = subspace != nullptr;
    inner.settled = spec.outer.warmup();
    ASSIGN_OR_RETURN(auto optimizer, NewInnerOptimizer(inner, *state->stage));
    state->optimizer = std::move(optimizer);
    if (flats != nullptr) state->optimizer->LieIn(flats->first_moment, flats->second_moment);
  }
  state->host_parameters = state->stage->parameters().cpu();
  if (state->stage->layout().tied) {
    state->tied = std::make_unique<TiedHead>(
        state->stage.get(), spec.stages > 1 ? rank.tied : c10::intrusive_ptr<c10d::Backend>());
  }
  GroupAverage::Place place = {rank.group, spec.groups, rank.stage, spec.seed, rank.outer};
  place.sums = std::move(sums);
  auto outer = NewOuterAlgorithm(
      spec.outer, {.plan = OuterPlan(spec.outer, spec.steps, spec.groups, spec.seed),
                   .place = std::move(place),
                   .stage = state->stage.get(),
                   .host_parameters = state->host_parameters,
                   .experts = rank.experts,
                   .inner = spec.inner,
                   .first_moment = state->optimizer == nullptr ? at::Tensor()
                                                               : state->optimizer->first_moment(),
                   .hooks = spec.outer_hooks});
  if (!outer.ok()) return outer.status();
  state->outer = *std::move(outer);
  return state;
}

void JoinStages(const TrainSpec& spec, const PipelineProgram& program,
                const std::function<absl::Duration()>* now, const Subspace* subspace,
                std::span<const std::unique_ptr<RankState>> stages) {
  using Place = std::pair<int, int>;  // group, rank of its pipeline
  std::map<Place, std::vector<RankState*>> ranks;
  for (const auto& state : stages) {
    const int rank = program.rank_of_stage[static_cast<size_t>(state->rank.stage)];
    ranks[{state->rank.group, rank}].push_back(state.get());
  }
  for (const auto& [place, held] : ranks) {
    std::vector<Stage*> own;
    for (const RankState* state : held) own.push_back(state->stage.get());
    const LocalRank& first = held.front()->rank;
    std::function<void(const Message&, const at::Tensor&)> watch;
    if (first.watch) {
      watch = [call = first.watch](const Message& message, const at::Tensor& x) {
        call({.microbatch = message.microbatch,
              .boundary = message.boundary(),
              .gradient = message.kind == MessageKind::kGradient,
              .values = x});
      };
    }
    const auto pipeline = std::make_shared<PipelineRank>(
        own, first.boundary, program, place.second, spec.batch_rows / spec.microbatches, now,
        std::move(watch), spec.mask_gradients, spec.sample_boundaries, first.spans, subspace);
    for (RankState* state : held) {
      state->pipeline = pipeline;
      if (program.flushes()) continue;
      state->past = std::make_unique<PastWeights>(program, state->stage.get());
    }
  }
  for (const auto& first : stages) {
    for (const auto& last : stages) {
      const bool ends = first->rank.stage == 0 && last->rank.stage == spec.stages - 1;
      if (!ends || first == last || first->rank.group != last->rank.group) continue;
      if (first->tied == nullptr) continue;
      first->tied->JoinLocally(last->tied.get());
      last->tied->JoinLocally(first->tied.get());
    }
  }
  if (!spec.exact_boundaries || subspace != nullptr) return;
  for (const auto& before : stages) {
    for (const auto& after : stages) {
      const LocalRank &from = before->rank, &to = after->rank;
      if (from.group != to.group || from.stage + 1 != to.stage) continue;
      if (before->pipeline == after->pipeline) continue;  // handed over without crossing
      before->pipeline->ShareBoundary(from.stage, after->pipeline.get());
    }
  }
}

}  // namespace longhaul
