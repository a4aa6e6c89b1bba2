#include "pp_group/local_rank.h"

#include <ATen/ATen.h>

#include "pp_group/models/model.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {

namespace {

absl::Status FillInitial(const TrainSpec& spec, Stage* stage) {
  if (!spec.initial) return absl::OkStatus();
  const at::Tensor flat = at::zeros({stage->layout().flat_elements}, at::kFloat);
  const absl::Status filled = spec.initial(stage->layout(), flat.data_ptr<float>());
  if (!filled.ok()) return filled;
  stage->parameters().copy_(flat);
  stage->ParametersChanged();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankState>> NewRankState(
    const TrainSpec& spec, const LocalRank& rank, const std::function<absl::Duration()>* now) {
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule);
  if (!schedule.ok()) return schedule.status();
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
                                                : c10::intrusive_ptr<c10d::Backend>()});
  if (!stage.ok()) return stage.status();
  state->stage = *std::move(stage);
  if (state->stage->trains()) {
    if (absl::Status s = FillInitial(spec, state->stage.get()); !s.ok()) return s;
    auto optimizer = NewInnerOptimizer(spec.inner, *state->stage);
    if (!optimizer.ok()) return optimizer.status();
    state->optimizer = *std::move(optimizer);
  }
  state->host_parameters = state->stage->parameters().cpu();
  state->pipeline = std::make_unique<PipelineRank>(
      std::vector<Stage*>{state->stage.get()}, rank.boundary,
      ProgramOf(*schedule, spec.stages, static_cast<int>(spec.microbatches)), rank.stage,
      spec.batch_rows / spec.microbatches, now,
      rank.watch ? [watch = rank.watch](int64_t microbatch, bool gradient,
                                        const at::Tensor& x) { watch({microbatch, gradient, x}); }
                 : std::function<void(int64_t, bool, const at::Tensor&)>(),
      spec.mask_gradients);
  if (state->stage->layout().tied) {
    state->tied = std::make_unique<TiedHead>(
        state->stage.get(), spec.stages > 1 ? rank.tied : c10::intrusive_ptr<c10d::Backend>());
  }
  GroupAverage::Place place = {rank.group, spec.groups, rank.stage, spec.seed, rank.outer};
  auto outer = NewOuterAlgorithm(spec.outer,
                                 {.plan = OuterPlan(spec.outer, spec.steps, spec.groups, spec.seed),
                                  .place = std::move(place),
                                  .stage = state->stage.get(),
                                  .host_parameters = state->host_parameters,
                                  .experts = rank.experts});
  if (!outer.ok()) return outer.status();
  state->outer = *std::move(outer);
  return state;
}

}  // namespace longhaul
